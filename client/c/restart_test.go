package c

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/transport/mem"
)

const restart = "testdata/restart.c"

// serverPath is the environment variable with which this test's program is an lnetd over a Core in memory,
// until it is killed.
const serverPath = "LNETD_TEST_SERVER"

// listen starts an lnetd at path.
func listen(path string) (*clients.Server, func() error, error) {
	server, err := clients.New(clients.Config{Core: mem.New(mem.Config{}).Host(home)})
	if err != nil {
		return nil, nil, err
	}
	l, err := clients.Listen(path, -1)
	if err != nil {
		return nil, nil, err
	}
	return server, func() error { return server.Serve(l) }, nil
}

// serveUntilKilled is the program of process.
func serveUntilKilled(path string) {
	_, serve, err := listen(path)
	if err == nil {
		fmt.Println("ready")
		err = serve()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// process starts an lnetd in another process, and waits until it listens.
func process(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	_ = os.Remove(path) // an lnetd that was killed leaves it
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), serverPath+"="+path)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, bufio.NewScanner(out), "ready")
	return c
}

// expect reads a line.
func expect(t *testing.T, lines *bufio.Scanner, line string) {
	t.Helper()
	if !lines.Scan() || lines.Text() != line {
		t.Fatalf("a program says %q instead of %q", lines.Text(), line)
	}
}

func kill(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // it was killed
}

// follow starts restart.c and returns its output, and a function that waits for its end.
func follow(t *testing.T, v *variant, arguments ...string) (lines *bufio.Scanner, wait func()) {
	t.Helper()
	p := v.begin(t, restart, arguments...)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", &p.complaints)
		}
	})
	return bufio.NewScanner(out), func() {
		if err := p.Wait(); err != nil || p.complaints.Len() > 0 {
			t.Errorf("%v\n%s", err, &p.complaints)
		}
	}
}

// A program survives the death of lnetd: every operation has a final event, and lnetd_reopen brings back
// its memory, its buffers and its TM, at the same address. lnetd is killed while nothing happens, and while
// messages are sent.
//
// transport 9.10
func TestKill(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		for name, arguments := range map[string][]string{"idle": nil, "traffic": {"-t"}} {
			t.Run(name, func(t *testing.T) {
				v.compile(t, restart)
				path := filepath.Join(testenv.SocketDir(t), "s")
				const rounds = 5
				c := process(t, path)
				lines, wait := follow(t, v, append(arguments, path, fmt.Sprint(rounds))...)
				for range rounds {
					expect(t, lines, "up")
					kill(t, c)
					c = process(t, path)
				}
				expect(t, lines, "up")
				expect(t, lines, "ok")
				wait()
				kill(t, c)
			})
		}
	})
}

// A program survives that lnetd stops in good order, and is started again.
//
// transport 9.10
func TestStop(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		path := filepath.Join(testenv.SocketDir(t), "s")
		start := func() (stop func()) {
			server, serve, err := listen(path)
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- serve() }()
			return func() {
				if err := errors.Join(server.Close(context.Background()), <-served); err != nil {
					t.Error(err)
				}
			}
		}
		stop := start()
		lines, wait := follow(t, v, path, "3")
		for range 3 {
			expect(t, lines, "up")
			stop()
			stop = start()
		}
		expect(t, lines, "up")
		expect(t, lines, "ok")
		wait()
		stop()
	})
}

// lnetd_wait reports that lnetd hangs, and the program continues when lnetd runs again.
//
// transport 9.10
func TestHang(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		v.compile(t, restart)
		path := filepath.Join(testenv.SocketDir(t), "s")
		c := process(t, path)
		lines, wait := follow(t, v, "-h", path)
		expect(t, lines, "up")
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		expect(t, lines, "hangs")
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		expect(t, lines, "ok")
		wait()
		kill(t, c)
	})
}
