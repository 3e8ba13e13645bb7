//go:build mpi && cgo

package mpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

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

// Two lnetd have the proxies of one job. Another mpirun starts an application of four ranks, which connects to them.
// Both do what they do in TestProxy, and then both jobs end. A second application has other proxies. MPICH says that it
// has no connections.
//
// MT-2, MPI-6, MPI-17, PT-4
func TestConnect(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		s := newSite(t, 2)
		c := newConnection(s)
		if l.kind == shim.MPICH {
			p := c.startProxies(l)
			if err := p.Wait(); err == nil || !strings.Contains(p.Output(), boundary.ErrNoConnections.Error()) {
				t.Errorf("%v\n%s", err, p.Output())
			}
			if out, err := l.with(job.PortVariable+"=any").run(t, "-n", "3", filepath.Join(programs, "mpiping")); err == nil || !strings.Contains(out, boundary.ErrNoConnections.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
		l = withServer(t)
		for range 2 {
			p := c.startProxies(l)
			s.talk(c.application(l).start(t, fmt.Sprint(talkers), s.order("talk")))
			if err := p.Wait(); err != nil {
				t.Errorf("%v\n%s", err, p.Output())
			}
			if _, err := os.Stat(c.file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the proxies have left their file: %v", err)
			}
		}
	})
}

// When the application is killed, its proxies end with an error, and lnetd has none. An application whose proxies do not
// exist ends too.
func TestConnectFails(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		if l.kind == shim.MPICH {
			return // cannot connect
		}
		l = withServer(t)
		s := newSite(t, 1)
		c := newConnection(s)
		// The application waits for the proxies, so that their timeout is not too short for its start.
		j := c.application(l).start(t, "2", s.order("load"))
		p := c.startProxies(l, "--timeout", "8s")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		port, err := job.Port("file:" + c.file)(ctx)
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Output())
		}
		j.await("up", 2)
		s.awaitProxies(0, 1)
		j.Signal(os.Kill)
		if err := p.Wait(); err == nil || !strings.Contains(p.Output(), lnd.ErrTimeout.Error()) {
			t.Errorf("%v\n%s", err, p.Output())
		}
		s.awaitProxies(0, 0)
		l = l.with(job.PortVariable + "=" + port)
		if out, err := l.run(t, "-n", "2", filepath.Join(programs, "mpiping"), "-timeout", "3"); err == nil {
			t.Errorf("connected to a job that has ended\n%s", out)
		}
	})
}

// An application starts its proxy itself, and both do what they do in TestProxy. A proxy that cannot attach to its lnetd
// ends the job, as does a program that does not exist. MPICH says that it cannot start processes.
//
// MT-2, MPI-6, MPI-17
func TestSpawn(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		s := newSite(t, 1)
		proxy := s.proxies()[3:] // behind ":", "-n" and "1"
		spawn := func(words ...string) library {
			return l.with(job.SpawnVariable + "=localhost " + strings.Join(words, " "))
		}
		ranks := filepath.Join(programs, "mpiping")
		if l.kind == shim.MPICH {
			if out, err := spawn(proxy...).run(t, "-n", "2", ranks); err == nil || !strings.Contains(out, boundary.ErrNoConnections.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
		s.talk(spawn(proxy...).start(t, fmt.Sprint(talkers), s.order("talk")))
		if out, err := spawn(append(proxy, "--nid", "127.0.0.9@mpi", "--attach-timeout", "1s")...).run(t, "-n", "2", ranks); err == nil {
			t.Errorf("started with a proxy of no NI\n%s", out)
		}
		if out, err := spawn("/nonexistent").run(t, "-n", "2", ranks); err == nil {
			t.Errorf("started a program that does not exist\n%s", out)
		}
	})
}

// connection is the way from an application to the proxies of a site that are a separate job.
type connection struct {
	site *site
	file string // has the name of the port
}

func newConnection(s *site) *connection {
	return &connection{s, filepath.Join(s.dir, "port")}
}

// application returns a library whose jobs connect to the proxies.
func (c *connection) application(l library) library {
	return l.with(job.PortVariable + "=file:" + c.file)
}

// startProxies starts the job of proxies.
func (c *connection) startProxies(l library, options ...string) *running {
	words := c.site.proxies(append(options, "--listen", c.file)...)
	return l.launch(c.site.t, words[1:]...) // the words begin with ":"
}
