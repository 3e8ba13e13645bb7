//go:build mpi && cgo

package mpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// buildLibraries compiles liblnetd and liblnet_mpi, once.
var buildLibraries = sync.OnceValue(func() error {
	if err := run(exec.Command("../../client/c/build", programs)); err != nil {
		return err
	}
	return run(exec.Command("../../mpi/c/build", programs))
})

// compileProgram compiles a program that uses liblnet_mpi for a test, and returns its path. It is beside the shims.
func compileProgram(t *testing.T, l library, compiler, source string, flags ...string) string {
	t.Helper()
	if err := buildLibraries(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(programs, strings.ReplaceAll(t.Name(), "/", "-")+filepath.Ext(source)+".program")
	words := append([]string{"-Wall", "-Wextra", "-Werror"}, flags...)
	words = append(words, "-o", to, source, "-I"+programs, "-L"+programs, "-Wl,-rpath,"+programs, "-llnet_mpi", "-llnetd", "-pthread")
	if err := run(exec.Command(compiler+"."+l.kind, words...)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Programs in C and Fortran initialize MPI, and use LNet through liblnet_mpi and liblnetd. A message passes all ranks. If
// there is one, it sends the message to itself.
//
// MPI-5, MPI-7
func TestCLibrary(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		program := compileProgram(t, l, "mpicc", "../../examples/mpiring/mpiring.c", "-std=c11")
		l.checkPrints(t, 1, program, "the message has passed the ranks 0\n")
		l.checkPrints(t, 4, program, "the message has passed the ranks 0 1 2 3\n")
		testenv.NeedCommand(t, "gfortran", "gfortran")
		program = compileProgram(t, l, "mpifort", "../../examples/mpiring/mpiring.f90", "-J", t.TempDir())
		l.checkPrints(t, 1, program, "the sum of all ranks is 0\n")
		l.checkPrints(t, 4, program, "the sum of all ranks is 6\n")
	})
}

// checkPrints checks that a program succeeds and prints a text.
func (l library) checkPrints(t *testing.T, ranks int, program, want string, arguments ...string) {
	t.Helper()
	out, err := l.run(t, append([]string{"-n", fmt.Sprint(ranks), program}, arguments...)...)
	if err != nil || !strings.Contains(out, want) {
		t.Errorf("%d ranks: %v\n%s", ranks, err, out)
	}
}

// A rank offers buffers of several lengths, up to the longest message, and the other one moves the data in both
// directions.
func TestCBulk(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		program := compileProgram(t, l, "mpicc", "testdata/bulk.c", "-std=c11")
		l.checkPrints(t, 2, program, "passed\n")
	})
}

// A program in C uses liblnet_mpi wrongly, and gets the errors that lnet_mpi.h lists.
//
// MPI-3
func TestCMisuse(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		program := compileProgram(t, l, "mpicc", "testdata/misuse.c", "-std=gnu11")
		out, err := l.run(t, "-n", "2", program)
		if err != nil || strings.Count(out, "passed") != 2 {
			t.Errorf("%v\n%s", err, out)
		}
		l.checkPrints(t, 1, program, "passed\n", "early")
		l.checkPrints(t, 1, program, "passed\n", "late")
		const spawn = job.SpawnVariable
		out, err = l.with(spawn+"=a,,b").run(t, "-n", "1", program, "invalid")
		if err == nil || !strings.Contains(out, "init: mpi: invalid configuration: "+spawn+": a host") {
			t.Errorf("%v\n%s", err, out)
		}
		if l.kind == shim.MPICH {
			out, err = l.with(spawn+"=localhost").run(t, "-n", "1", program, "alone")
			if err == nil || !strings.Contains(out, boundary.ErrNoConnections.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
}

// The socket is created in the directory that TMPDIR names, or in /tmp if its path would be too long for a socket. A rank
// that is killed leaves nothing there. That there is no such directory is not reported as a missing shim.
func TestCSocket(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		program := compileProgram(t, l, "mpicc", "testdata/misuse.c", "-std=gnu11")
		long := filepath.Join(t.TempDir(), strings.Repeat("d", unixsocket.PathMax))
		if err := os.Mkdir(long, 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := l.run(t, "-n", "1", "env", "TMPDIR="+long, program)
		if err != nil || !strings.Contains(out, "passed\n") {
			t.Errorf("%v\n%s", err, out)
		}
		short := testenv.SocketDir(t)
		out, err = l.run(t, "-n", "1", "env", "TMPDIR="+short, program, "killed")
		left, failed := filepath.Glob(filepath.Join(short, "lnet*"))
		if err == nil || !strings.Contains(out, "killed at /proc/self/fd/") || failed != nil || len(left) > 0 {
			t.Errorf("%v, %v, left behind: %q\n%s", err, failed, left, out)
		}
		missing := filepath.Join(t.TempDir(), "missing")
		out, err = l.run(t, "-n", "1", "env", "TMPDIR="+missing, program, "broken")
		if err == nil || !strings.Contains(out, "init: mkdir "+missing) && !strings.Contains(out, "init: stat "+missing) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
