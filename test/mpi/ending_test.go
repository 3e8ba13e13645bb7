//go:build mpi && cgo

package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// SIGTERM ends a proxy in order: it tells why, the job ends with an error, and lnetd has no proxy.
//
// MPI-18
func TestTerminatedProxy(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		s := newSite(t, 1)
		j := l.start(t, "2", s.order("idle"), s.proxies()...)
		j.await("up", 2)
		if err := syscall.Kill(j.proxy(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := j.Wait(); err == nil || !strings.Contains(j.Output(), "lnet-mpi-proxy: ended by signal: terminated") {
			t.Errorf("%v\n%s", err, j.Output())
		}
		s.awaitProxies(0, 0)
	})
}

// When mpirun is killed, its processes end, and lnetd has no proxy. The next job works.
//
// MT-5, MPI-18
func TestKillMpirun(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		s := newSite(t, 1)
		j := l.start(t, "2", s.order("idle"), s.proxies()...)
		j.await("up", 2)
		all := descendants(t, j.PID())
		j.Signal(os.Kill)
		s.awaitProxies(0, 0)
		daemontest.Within(t, patience, "the processes of the job", func() error {
			for _, p := range all {
				if p.runs() {
					return fmt.Errorf("%s %d runs", p.name, p.pid)
				}
			}
			return nil
		})
		j = l.start(t, "2", s.order("idle"), s.proxies()...)
		s.stopLoad(j.await("up", 2))
		if err := j.Wait(); err != nil {
			t.Errorf("%v\n%s", err, j.Output())
		}
	})
}

// runs reports whether the process has not ended. If another process has its PID now, it has.
func (p program) runs() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "("+p.name+") ")
	return rest != "" && rest[0] != 'Z'
}

// A send of the proxy fails. With --on-error abort the whole job ends. Otherwise one message is lost, and later ones
// arrive.
//
// MPI-3, MPI-4
func TestOnError(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		so := preloaded(t, l, "fault")
		for _, action := range []string{"abort", "return"} {
			s := newSite(t, 1)
			words := s.proxies("--on-error", action)
			words = append(append([]string{}, words[:3]...), append([]string{"env", "LD_PRELOAD=" + so}, words[3:]...)...)
			j := l.start(t, "1", s.order("fault"), words...)
			err := j.Wait()
			if !strings.Contains(j.Output(), "a send of the proxy fails") || (err == nil) != (action == "return") {
				t.Errorf("%s: %v\n%s", action, err, j.Output())
			}
		}
	})
}

// survive pings the proxy more often than it takes for one of its sends to fail. The ping whose answer is lost ends after
// some time. The last pings succeed, however long they take.
func survive(ctx context.Context, r *rank) error {
	const pings, last = 120, 5
	to := func(m job.Member) lnet.ProcessID { return lnet.ProcessID{NID: m.NID, PID: m.PID} }
	for _, m := range r.Members() {
		if !m.Proxy {
			continue
		}
		failed := 0
		for range pings {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err := r.Node().Ping(short, to(m), node.PingOptions{})
			cancel()
			if err != nil {
				failed++
			}
		}
		if failed == pings {
			return errors.New("all pings have failed")
		}
		for range last {
			if _, err := r.Node().Ping(ctx, to(m), node.PingOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}
