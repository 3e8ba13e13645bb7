//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// SIGHUP does not end lnetd: it reads its configuration again, applies new rules for clients,
// reports which changes need a restart, or which errors there are, and continues.
func TestHangup(t *testing.T) {
	dir := t.TempDir()
	bin, socket := filepath.Join(dir, "lnetd"), filepath.Join(dir, "c.sock")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "lnetd.yaml")
	configure := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("")
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--net", "tcp(lo)", "--port", strconv.Itoa(port), "--control-socket", socket, "--config", file)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }() // after a success it has already ended
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
	const rule = "lnetd: {transport: {rules: [{name: all}]}}\n"
	for _, c := range []struct{ text, said string }{
		{"", "configuration reloaded"},
		{rule, "new client rules apply to clients that connect from now on"},
		{rule, "configuration reloaded"},
		{"lnetd: {transport: {rules: 7}}", "7\\\" was found, but a list was expected"},
		{rule + "route: [{net: tcp7, gateway: 127.0.0.9@tcp}]", "configuration reloaded"},
		{rule, "configuration reloaded"},
	} {
		configure(c.text)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		said(c.said)
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
