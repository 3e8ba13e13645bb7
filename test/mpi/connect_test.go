//go:build mpi && cgo

package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// listen runs a process of a job that waits for an application, like a proxy, but with a node of its own. It pings all
// processes of the application.
func (o order) listen() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	net := lnet.MakeNet(mpilnd.DefaultType, 0)
	rank, err := strconv.Atoi(os.Getenv("OMPI_COMM_WORLD_RANK"))
	if err != nil {
		return err
	}
	j, err := job.Start(ctx, job.Config{
		Open:   func() (boundary.MPI, error) { return shim.Open("", shim.Options{Dir: o.Shims}) },
		Net:    net,
		Driver: mpilnd.DefaultConfig(),
		Listen: job.ListenFile(o.Listen),
		Proxy: &job.Proxy{
			NID:      func() (lnet.NID, error) { return loopback(net, byte(101+rank)), nil },
			Allocate: func() (lnet.PID, error) { return 0x80000005, nil },
			Register: func(lnet.PID) error { return nil },
		},
		Timeout: o.Timeout,
	})
	if err != nil {
		return err
	}
	n, err := node.New(node.Config{Parameters: parameters()})
	if err == nil {
		_, err = n.AddNI(ctx, j.Driver(), lnd.Config{NID: j.Self().NID})
	}
	if err != nil {
		return err
	}
	for _, m := range j.Table().Members() {
		if m.Rank == j.Self().Rank {
			continue
		}
		if _, err := n.Ping(ctx, lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping of %s: %w", m.NID, err)
		}
	}
	say("up", j.Self())
	if err := j.Finish(ctx); err != nil {
		return err
	}
	return errors.Join(n.Close(ctx), j.Close(ctx))
}

// withServer returns Open MPI with its name server, by which jobs of several mpiruns can connect.
func withServer(t *testing.T) library {
	t.Helper()
	testenv.NeedCommand(t, "ompi-server", "openmpi-bin")
	uri := filepath.Join(t.TempDir(), "uri")
	c := exec.Command("ompi-server", "--no-daemonize", "--report-uri", uri)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for text := ""; !strings.HasSuffix(text, "\n"); { // job.Port waits for the file
		if _, err := job.Port("file:" + uri)(ctx); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(uri)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	l := libraries[0]
	l.options = append(append([]string{}, l.options...), "--ompi-server", "file:"+uri)
	return l
}

// An application of three ranks and a job of two processes like proxies, with an mpirun each, connect, and ping each
// other: each rank all others, and each proxy all others. Then both end.
//
// MT-2, MPI-6, MPI-17, PT-4
func TestConnect(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		file := filepath.Join(t.TempDir(), "port")
		t.Setenv(job.PortVariable, "file:"+file)
		ping := []string{"-n", "3", filepath.Join(programs, "mpiping"), "-timeout", "60"}
		if l.kind == shim.MPICH {
			t.Setenv(job.PortVariable, "any")
			if out, err := l.run(t, ping...); err == nil || !strings.Contains(out, boundary.ErrNoConnections.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
		l = withServer(t)
		for range 2 { // a proxy serves one application, the next one has another
			j := l.start(t, "2", order{Listen: file, Shims: programs})
			out, err := l.run(t, ping...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			checkLines(t, out, 3, ": 4 pings, 7 PUTs in ")
			if up := j.await("up", 2); up[3].NID == up[4].NID {
				t.Errorf("both proxies are %s", up[3].NID)
			}
			if err := j.end(); err != nil {
				t.Errorf("%v\n%s", err, j.printed())
			}
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
		}
	})
}

// When the application is killed, its proxies end with an error. An application whose proxies do not exist ends too.
func TestConnectFails(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		if l.kind == shim.MPICH {
			return // cannot connect
		}
		l = withServer(t)
		file := filepath.Join(t.TempDir(), "port")
		t.Setenv(job.PortVariable, "file:"+file)
		j := l.start(t, "2", order{Listen: file, Shims: programs, Timeout: 5 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		application := l.command(ctx, "-n", "2", filepath.Join(programs, "mpiping"), "-wait")
		if err := application.Start(); err != nil {
			t.Fatal(err)
		}
		j.await("up", 2)
		if err := application.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = application.Wait()
		if err := j.end(); err == nil || !strings.Contains(j.printed(), lnd.ErrTimeout.Error()) {
			t.Errorf("%v\n%s", err, j.printed())
		}
		out, err := l.run(t, "-n", "2", filepath.Join(programs, "mpiping"), "-timeout", "3")
		if err == nil {
			t.Errorf("connected to a job that has ended\n%s", out)
		}
	})
}
