//go:build mpi && cgo

package mpi

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// buildLibraries compiles liblnetd and liblnet_mpi, once.
var buildLibraries = sync.OnceValue(func() error {
	if err := run(exec.Command("../../client/c/build", programs)); err != nil {
		return err
	}
	return run(exec.Command("../../mpi/c/build", programs))
})

// compileProgram compiles a program that uses liblnet_mpi, and returns its path. It is beside the shims.
func compileProgram(t *testing.T, l library, compiler, source string, flags ...string) string {
	t.Helper()
	if err := buildLibraries(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(programs, strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))+"-"+compiler+"-"+l.kind)
	words := append([]string{"-Wall", "-Wextra", "-Werror"}, flags...)
	words = append(words, "-o", to, source, "-I"+programs, "-L"+programs, "-Wl,-rpath,"+programs, "-llnet_mpi", "-llnetd", "-pthread")
	if err := run(exec.Command(compiler+"."+l.kind, words...)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Programs in C and Fortran initialize MPI, and use LNet through liblnet_mpi and liblnetd. A message passes all ranks.
//
// MPI-5, MPI-7
func TestCLibrary(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		const ranks = 4
		program := compileProgram(t, l, "mpicc", "../../examples/mpiring/mpiring.c", "-std=c11")
		out, err := l.run(t, "-n", fmt.Sprint(ranks), program)
		if err != nil || !strings.Contains(out, "the message has passed the ranks 0 1 2 3\n") {
			t.Errorf("%v\n%s", err, out)
		}
		testenv.NeedCommand(t, "gfortran", "gfortran")
		program = compileProgram(t, l, "mpifort", "../../examples/mpiring/mpiring.f90", "-J", t.TempDir())
		out, err = l.run(t, "-n", fmt.Sprint(ranks), program)
		if err != nil || !strings.Contains(out, "the sum of all ranks is 6\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
