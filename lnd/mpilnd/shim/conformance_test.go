//go:build mpi && cgo

// These tests need Open MPI and MPICH, whose mpirun starts this program again as the ranks of a job.

package shim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/boundarytest"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// Environment variables of a rank: what it does, and the directory of the shims.
const role, shims = "LNETD_TEST_MPI_ROLE", "LNETD_TEST_MPI_SHIMS"

// patience is how long a rank waits for a request, and limit how long a job may take.
const patience, limit = 30 * time.Second, 4 * time.Minute

func TestMain(m *testing.M) {
	roles := map[string]func() error{
		"suite": suite, "open": openOnly, "mpich": openMPICH, "openmpi": openOpenMPI, "measure": measure, "passed": passed,
		"abort": abort, "die": die, "accept": accept, "connect": connect, "port": openPort, "malformed": malformed, "remote": remote,
		"spawn": spawn, "spawned": spawned,
	}
	name := os.Getenv(role)
	if name == "" {
		os.Exit(runTests(m))
	}
	runtime.LockOSThread()
	if err := roles[name](); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// compiled is the directory of the shims. Each shim has its directory there.
var compiled string

func runTests(m *testing.M) int {
	var err error
	if compiled, err = os.MkdirTemp("", "shims"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(compiled) }()
	return m.Run()
}

// compile compiles the shim of each library, once.
var compile = map[string]func() error{
	shim.OpenMPI: sync.OnceValue(func() error { return compileShim(shim.OpenMPI) }),
	shim.MPICH:   sync.OnceValue(func() error { return compileShim(shim.MPICH) }),
}

func compileShim(kind string) error {
	if out, err := exec.Command("./build", filepath.Join(compiled, kind), kind).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// installation is an MPI library of this machine.
type installation struct {
	kind, name string
	mpirun     []string
}

var installations = []installation{
	{shim.OpenMPI, "Open MPI", []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"}},
	{shim.MPICH, "MPICH", []string{"mpirun.mpich"}},
}

// onLibraries runs a test for each library, with the directory of its shim. The libraries are tested at the same time.
func onLibraries(t *testing.T, test func(t *testing.T, i installation, dir string)) {
	for _, i := range installations {
		t.Run(i.kind, func(t *testing.T) {
			t.Parallel()
			test(t, i, build(t, i))
		})
	}
}

// build returns the directory of the shim of an installation.
func build(t testing.TB, i installation) string {
	t.Helper()
	testenv.NeedCommand(t, i.mpirun[0], map[string]string{shim.OpenMPI: "openmpi-bin", shim.MPICH: "mpich"}[i.kind])
	testenv.NeedCommand(t, "mpicc."+i.kind, "lib"+i.kind+"-dev")
	if err := compile[i.kind](); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(compiled, i.kind)
}

// job runs n ranks with a role under the mpirun of i, and returns what they print.
func job(t testing.TB, i installation, dir string, n int, what string) (string, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, i, n, []string{role + "=" + what, shims + "=" + dir}, program)
}

// start runs n copies of a program under the mpirun of i, and returns what they print.
func start(t testing.TB, i installation, n int, env []string, program ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	words := append(append([]string{}, i.mpirun[1:]...), append([]string{"-n", fmt.Sprint(n)}, program...)...)
	c := exec.CommandContext(ctx, i.mpirun[0], words...)
	c.Env = append(os.Environ(), env...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // mpirun then ends the ranks
	c.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return out.String(), err
}

func open(library string, o shim.Options) (boundary.MPI, boundary.Comm, error) {
	o.Dir = os.Getenv(shims)
	m, err := shim.Open(library, o)
	if err != nil {
		return nil, nil, err
	}
	c, err := m.World()
	return m, c, err
}

// suite runs the conformance suite as one rank. Rank 0 prints the names of cases that have passed.
func suite() error {
	m, c, err := open("", shim.Options{Processes: boundarytest.Ranks, Spin: 20 * time.Microsecond})
	if err != nil {
		return err
	}
	for _, test := range boundarytest.Cases() {
		if err := test.Run(m, patience); err != nil {
			fmt.Printf("%s: %s: %v\n", m.Library(), test.Name, err)
			c.Abort(1)
		}
		if c.Rank() == 0 {
			fmt.Println("passed", test.Name)
		}
	}
	if err := recovers(); err != nil {
		return err
	}
	return m.Close()
}

// recovers checks that the library has left Go's signal handlers.
func recovers() (err error) {
	defer func() {
		if recover() == nil {
			err = errors.New("no panic after a nil dereference")
		}
	}()
	var p *installation
	_ = p.kind //nolint:govet // the fault is the test
	return nil
}

func TestConformance(t *testing.T) {
	onLibraries(t, func(t *testing.T, i installation, dir string) {
		out, err := job(t, i, dir, boundarytest.Ranks, "suite")
		for _, c := range boundarytest.Cases() {
			t.Run(c.Name, func(t *testing.T) {
				if !strings.Contains(out, "passed "+c.Name+"\n") {
					t.Error("not passed")
				}
			})
		}
		if rest := unexplained(out); err != nil || rest != "" {
			t.Errorf("%v\n%s", err, rest)
		}
	})
}

// unexplained returns lines that a job has printed, without those of passed cases. MPICH warns about requests that
// were left.
func unexplained(out string) string {
	var rest []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "passed ") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}

func openOnly() error { return opened("") }

func openMPICH() error { return opened(shim.MPICH) }

func openOpenMPI() error { return opened(shim.OpenMPI) }

// opened opens a library, prints what it is, and closes it.
func opened(library string) error {
	m, c, err := open(library, shim.Options{})
	if err != nil {
		return err
	}
	if _, err := shim.Open(library, shim.Options{Dir: os.Getenv(shims)}); err == nil {
		return errors.New("a library was opened twice")
	}
	fmt.Printf("%s: %d processes, largest tag %d\n", m.Library(), c.Size(), m.MaxTag())
	return m.Close()
}

// TestChoosesLibrary: without a name, Open uses the library of the mpirun.
func TestChoosesLibrary(t *testing.T) {
	onLibraries(t, func(t *testing.T, i installation, dir string) {
		out, err := job(t, i, dir, 2, "open")
		if err != nil || strings.Count(out, i.name) != 2 || strings.Count(out, ": 2 processes") != 2 {
			t.Errorf("%v\n%s", err, out)
		}
		t.Log(out)
	})
}

// TestAlone: a process without an mpirun is a job of one.
func TestAlone(t *testing.T) {
	onLibraries(t, func(t *testing.T, i installation, dir string) {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), role+"="+i.kind, shims+"="+dir)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), i.name) || !strings.Contains(string(out), ": 1 processes") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestWrongLauncher: under the other library's mpirun each rank would be alone.
func TestWrongLauncher(t *testing.T) {
	dir := t.TempDir()
	for k, i := range installations {
		if err := os.Symlink(filepath.Join(build(t, i), "lnetd-"+i.kind+".so"), filepath.Join(dir, "lnetd-"+i.kind+".so")); err != nil {
			t.Fatal(err)
		}
		other := installations[1-k]
		out, err := job(t, other, dir, 2, i.kind)
		if err == nil || !strings.Contains(out, boundary.ErrLauncher.Error()) {
			t.Errorf("%s under the mpirun of %s: %v\n%s", i.kind, other.kind, err, out)
		}
	}
}
