//go:build mpi && cgo

package mpi

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// programs is the directory of the programs and the shims.
var programs string

// runTests runs the tests.
func runTests(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "mpi"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(programs) }()
	return m.Run()
}

// built builds lnetd, lnetdctl, lnet-mpi-proxy and mpiping, once. lnetd has no race detector: the tests of proxies run
// its side with it. The test runs beside others, since jobs mostly wait.
func built(t *testing.T) {
	t.Helper()
	t.Parallel()
	if err := build(); err != nil {
		t.Fatal(err)
	}
}

var build = sync.OnceValue(func() error {
	if err := daemontest.Build(programs); err != nil {
		return err
	}
	args := []string{"build", "-tags", "mpi", "-buildvcs=false", "-o", programs + "/"}
	if testenv.Race {
		args = append(args, "-race")
	}
	return run(exec.Command("go", append(args, "../../cmd/lnet-mpi-proxy", "../../examples/mpiping")...))
})

// compile compiles the shim of each library, once.
var compile = map[string]func() error{
	shim.OpenMPI: sync.OnceValue(func() error { return compileShim(shim.OpenMPI) }),
	shim.MPICH:   sync.OnceValue(func() error { return compileShim(shim.MPICH) }),
}

func compileShim(kind string) error {
	return run(exec.Command("../../lnd/mpilnd/shim/build", programs, kind))
}

func run(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w\n%s", c.Args, err, out)
	}
	return nil
}
