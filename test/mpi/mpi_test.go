//go:build mpi && cgo

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// limit is how long a job may take.
const limit = 3 * time.Minute

// library is an MPI library, and what starts a job.
type library struct {
	kind, mpirun string
	options      []string
	env          []string // settings of its jobs
}

var libraries = []library{
	{shim.OpenMPI, "mpirun.openmpi", []string{"--allow-run-as-root", "--oversubscribe"}, nil},
	{shim.MPICH, "mpirun.mpich", nil, nil},
}

// with returns the library with more settings in the environment of its jobs.
func (l library) with(settings ...string) library {
	l.env = append(append([]string{}, l.env...), settings...)
	return l
}

// onLibraries runs a test for each library, after it has compiled the library's shim. The libraries are tested at the
// same time, since jobs mostly wait.
func onLibraries(t *testing.T, test func(t *testing.T, l library)) {
	for _, l := range libraries {
		t.Run(l.kind, func(t *testing.T) {
			t.Parallel()
			testenv.NeedCommand(t, l.mpirun, map[string]string{shim.OpenMPI: "openmpi-bin", shim.MPICH: "mpich"}[l.kind])
			testenv.NeedCommand(t, "mpicc."+l.kind, "lib"+l.kind+"-dev")
			if err := compile[l.kind](); err != nil {
				t.Fatal(err)
			}
			test(t, l)
		})
	}
}

// command returns a command that starts a job. words are the words behind the options of mpirun.
func (l library) command(ctx context.Context, words ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, l.mpirun, append(append([]string{}, l.options...), words...)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // mpirun then ends the ranks
	c.WaitDelay = 10 * time.Second
	c.Env = append(os.Environ(), l.env...)
	return c
}

// run runs a job, and returns what it prints.
func (l library) run(t *testing.T, words ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := l.command(ctx, words...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// checkLines checks that each of the ranks has printed its line, and that nothing else was printed.
func checkLines(t *testing.T, out string, ranks int, want string) {
	t.Helper()
	found := 0
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "rank ") || !strings.Contains(line, want) {
			t.Errorf("printed %q", line)
		}
		found++
	}
	if found != ranks {
		t.Errorf("%d lines, want %d", found, ranks)
	}
}

// Four ranks with the library form ping each other, and send PUTs of sizes around the longest short message.
//
// MT-1, PT-2, MPI-1, MPI-5, MPI-7
func TestRanks(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		out, err := l.run(t, "-n", "4", filepath.Join(programs, "mpiping"))
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		checkLines(t, out, 4, ": 3 pings, 7 PUTs in ")
	})
}

// A rank that fails ends the job with a status that is not 0, whether others wait for it or not.
func TestFailure(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		out, err := l.run(t, "-n", "2", filepath.Join(programs, "mpiping"), ":", "-n", "1", filepath.Join(programs, "mpiping"), "nonsense")
		if err == nil || !strings.Contains(out, "nonsense") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// A job of MPICH over TCP ends, although MPI_Finalize of MPICH 4.0.2 often does not return then (mpilnd B.8). The mpirun
// of MPICH sometimes complains about ranks that have left MPI_Finalize, and has the exit status 255, or kills those that
// are still there, and has the exit status 9.
func TestFinalize(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		if l.kind != shim.MPICH {
			return
		}
		l = l.with("UCX_TLS=tcp")
		const ranks, complaint, killed = 4, 255, 9
		out, err := l.run(t, "-n", fmt.Sprint(ranks), filepath.Join(programs, "mpiping"))
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != complaint && exit.ExitCode() != killed) {
			t.Errorf("%v\n%s", err, out)
		}
		if n := strings.Count(out, ": 3 pings, 7 PUTs in "); n != ranks {
			t.Errorf("%d ranks have passed\n%s", n, out)
		}
	})
}
