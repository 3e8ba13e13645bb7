//go:build mpi && cgo

package shim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// hosts is the environment variable with the directory of testdata/host.c.
const hosts = "HOST_DIR"

// passed uses a communicator of a program that has initialized MPI.
func passed() error {
	text, err := os.ReadFile(filepath.Join(os.Getenv(hosts), fmt.Sprint(os.Getpid())))
	if err != nil {
		return err
	}
	var handle int32
	if _, err := fmt.Sscan(string(text), &handle); err != nil {
		return err
	}
	m, c, err := open("", shim.Options{Comm: &handle, Processes: 4})
	if err != nil {
		return err
	}
	p := &pair{Comm: c, m: m, l: load{rounds: 100}, in: make([]byte, 100), out: make([]byte, 100)}
	if err := errors.Join(p.pingPong(), recovers(), m.Close()); err != nil {
		return err
	}
	fmt.Printf("exchanged messages among %d\n", c.Size())
	return nil
}

// TestPassedCommunicator: the shim uses the program's communicator, and neither MPI_COMM_WORLD (mpilnd MPI-6, MPI-7)
// nor MPI_Finalize.
//
// MPI-6
func TestPassedCommunicator(t *testing.T) {
	onLibraries(t, func(t *testing.T, i installation, dir string) {
		host := filepath.Join(t.TempDir(), "host.so")
		if out, err := exec.Command("mpicc."+i.kind, "-Wall", "-shared", "-fPIC", "-o", host, "testdata/host.c").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := start(t, i, 4, []string{role + "=passed", shims + "=" + dir, hosts + "=" + t.TempDir()},
			"env", "LD_PRELOAD="+host, os.Args[0])
		if err != nil || strings.Count(out, "exchanged messages among 2\n") != 4 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// waitForEnd waits for a message that is never sent, while rank 1 ends in some way.
func waitForEnd(end func(boundary.Comm)) error {
	m, c, err := open("", shim.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(c.Receive(boundary.Any, 1, make([]byte, 1), 1), c.Barrier()); err != nil {
		return err
	}
	if c.Rank() == 1 {
		end(c)
	}
	var done [1]boundary.Done
	n, err := m.Poll(done[:], time.Hour)
	return fmt.Errorf("poll: %d, %+v, %w", n, done[0], err)
}

func abort() error { return waitForEnd(func(c boundary.Comm) { c.Abort(7) }) }

func die() error {
	return waitForEnd(func(boundary.Comm) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
}

// TestEndOfRank: both launchers end the job, and fail, if a rank calls Abort or is killed. MPICH's mpirun may return
// another status than that of Abort.
func TestEndOfRank(t *testing.T) {
	for _, what := range []string{"abort", "die"} {
		t.Run(what, func(t *testing.T) {
			onLibraries(t, func(t *testing.T, i installation, dir string) {
				out, err := job(t, i, dir, 3, what)
				var exit *exec.ExitError
				if !errors.As(err, &exit) || what == "abort" && i.kind == shim.OpenMPI && exit.ExitCode() != 7 {
					t.Errorf("%v\n%s", err, out)
				}
			})
		})
	}
}
