//go:build mpi && cgo

package shim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/boundarytest"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// ports is the environment variable with the directory in which the job that accepts writes the names of its ports, as
// files 1, 2, and so on.
const ports = "LNETD_TEST_MPI_PORTS"

func accept() error {
	n := 0
	return connections(boundarytest.Side{Publish: func(port string) error {
		n++
		name := filepath.Join(os.Getenv(ports), fmt.Sprint(n))
		return errors.Join(os.WriteFile(name+".new", []byte(port), 0o600), os.Rename(name+".new", name))
	}})
}

func connect() error {
	n := 0
	return connections(boundarytest.Side{Lookup: func() (string, error) {
		n++
		look := time.NewTicker(10 * time.Millisecond)
		defer look.Stop()
		for {
			b, err := os.ReadFile(filepath.Join(os.Getenv(ports), fmt.Sprint(n)))
			if !errors.Is(err, os.ErrNotExist) {
				return string(b), err
			}
			<-look.C
		}
	}})
}

// connections runs the tests of two jobs as one rank of one of them. Rank 0 prints the names of tests that have passed.
func connections(s boundarytest.Side) error {
	m, c, err := open("", shim.Options{Spin: 20 * time.Microsecond})
	if err != nil {
		return err
	}
	for _, test := range boundarytest.Connections() {
		if err := test.Run(m, s, patience); err != nil {
			fmt.Printf("%s: %s: %v\n", m.Library(), test.Name, err)
			c.Abort(1)
		}
		if c.Rank() == 0 {
			fmt.Println("passed", test.Name)
		}
	}
	return m.Close()
}

// spawn and spawned are ranks of a job that starts another one, and of that one.
func spawn() error { return spawning(boundarytest.Side{Program: spawnedProgram()}) }

func spawned() error { return spawning(boundarytest.Side{Spawned: true}) }

// spawnedProgram is this program in the role spawned: two processes on this host.
func spawnedProgram() boundary.Program {
	return boundary.Program{Path: "env", Args: []string{role + "=spawned", os.Args[0]}, Hosts: []string{"localhost", "localhost"}}
}

func spawning(s boundarytest.Side) error {
	m, c, err := open("", shim.Options{})
	if err != nil {
		return err
	}
	test := boundarytest.Spawning()
	if err := test.Run(m, s, patience); err != nil {
		fmt.Printf("%s: %s: %v\n", m.Library(), test.Name, err)
		c.Abort(1)
	}
	fmt.Println("passed", test.Name)
	return m.Close()
}

// TestSpawn: a job of Open MPI starts another one, and exchanges messages with it. MPICH over UCX cannot, and says so.
//
// MT-2
func TestSpawn(t *testing.T) {
	onLibraries(t, func(t *testing.T, i installation, dir string) {
		out, err := job(t, i, dir, 3, "spawn")
		if i.kind == shim.MPICH {
			if err == nil || !strings.Contains(out, boundary.ErrNoConnections.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
		if n := strings.Count(out, "passed Spawn\n"); err != nil || n != 5 {
			t.Errorf("%d ranks have passed: %v\n%s", n, err, out)
		}
	})
}

// remote prints the error of spawning on a host with a long name.
func remote() error {
	m, _, err := open("", shim.Options{})
	if err != nil {
		return err
	}
	_, err = m.Spawn(boundary.Program{Path: "true", Hosts: []string{"localhost", strings.Repeat("h", 1<<16)}})
	fmt.Println(err)
	return m.Close()
}

// TestLongHost: a host whose name is too long for the library is an error before the library is called, since the
// library would pass the error to the handler of MPI_COMM_WORLD.
func TestLongHost(t *testing.T) {
	onLibraries(t, func(t *testing.T, i installation, dir string) {
		out, err := job(t, i, dir, 1, "remote")
		if err != nil || !strings.Contains(out, "mpi: spawn: the name of the host hhh") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// startServer starts the name server of Open MPI, with which jobs of several mpiruns can connect, and returns the
// option of mpirun that names it.
func startServer(t testing.TB) (option []string) {
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
	deadline, look := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer look.Stop()
	for {
		b, err := os.ReadFile(uri)
		if err == nil && strings.HasSuffix(string(b), "\n") {
			return []string{"--ompi-server", "file:" + uri}
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("ompi-server has not written its address: %v", err)
		}
	}
}

// TestConnections: two jobs of Open MPI connect to each other, in both orders, and exchange messages.
//
// MT-2
func TestConnections(t *testing.T) {
	i := installations[0]
	dir := build(t, i)
	i.mpirun = append(append([]string{}, i.mpirun...), startServer(t)...)
	env := []string{shims + "=" + dir, ports + "=" + t.TempDir()}
	type result struct {
		out string
		err error
	}
	run := func(n int, what string) chan result {
		r := make(chan result, 1)
		go func() {
			out, err := start(t, i, n, append([]string{role + "=" + what}, env...), os.Args[0])
			r <- result{out, err}
		}()
		return r
	}
	for _, job := range []chan result{run(2, "accept"), run(3, "connect")} {
		r := <-job
		for _, c := range boundarytest.Connections() {
			if !strings.Contains(r.out, "passed "+c.Name+"\n") {
				t.Errorf("%s: not passed", c.Name)
			}
		}
		if r.err != nil {
			t.Errorf("%v\n%s", r.err, r.out)
		}
	}
}

// malformed prints the error of connecting to no port.
func malformed() error {
	m, _, err := open("", shim.Options{})
	if err != nil {
		return err
	}
	_, err = m.Connect("no port")
	fmt.Println("connect:", err)
	return m.Close()
}

// TestMalformedPort: a name that is not one of a port is an error.
func TestMalformedPort(t *testing.T) {
	i := installations[0]
	dir := build(t, i)
	i.mpirun = append(append([]string{}, i.mpirun...), startServer(t)...)
	if out, err := job(t, i, dir, 1, "malformed"); err != nil || !strings.Contains(out, "connect: mpi: connect: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// openPort prints what opening a port returns.
func openPort() error {
	m, _, err := open("", shim.Options{})
	if err != nil {
		return err
	}
	port, err := m.OpenPort()
	if !errors.Is(err, boundary.ErrNoConnections) {
		return fmt.Errorf("opened port %q, %w", port, err)
	}
	fmt.Println(err)
	return m.Close()
}

// TestNoConnections: MPICH over UCX cannot connect jobs, and says so.
//
// MT-2
func TestNoConnections(t *testing.T) {
	i := installations[1]
	out, err := job(t, i, build(t, i), 1, "port")
	if err != nil || !strings.Contains(out, boundary.ErrNoConnections.Error()) {
		t.Errorf("%v\n%s", err, out)
	}
}
