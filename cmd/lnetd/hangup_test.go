package main

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/control/client"
	"github.com/lnetd/lnetd/internal/daemon/daemontest"
)

// SIGHUP ends nothing: lnetd says that nothing is reloaded, each time, and goes
// on.
func TestHangup(t *testing.T) {
	dir := t.TempDir()
	bin, socket := filepath.Join(dir, "lnetd"), filepath.Join(dir, "c.sock")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--net", "tcp(lo)", "--port", strconv.Itoa(port), "--control-socket", socket)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }() // when all went well it has ended
	lines := bufio.NewReader(stderr)
	said := func(want string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("lnetd did not say %q: %v", want, err)
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}

	said(`"msg":"ready"`)
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		said("nothing is reloaded yet")
	}
	c := client.New(socket)
	defer c.Close()
	if v, err := c.Version(t.Context()); err != nil || v.PID != cmd.Process.Pid {
		t.Errorf("after SIGHUP %+v answers: %v", v, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("lnetd ends with %v", err)
	}
}
