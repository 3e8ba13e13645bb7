package examples

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// build compiles the program in a folder.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("go", "build", "-o", program, "./"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// start starts a node at 127.0.0.2 and returns it with its port.
func start(t *testing.T) (*node.Node, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{}, driver, "127.0.0.2@tcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, fmt.Sprint(port)
}

// Given another node, when ping is called with its NID, then it prints the NIDs of that node.
func TestPing(t *testing.T) {
	program := build(t, "ping")
	_, port := start(t)
	out, err := exec.CommandContext(t.Context(), program, "-port", port, "127.0.0.2@tcp").CombinedOutput()
	if err != nil || string(out) != "127.0.0.2@tcp up\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// Given echo, when a message is sent to it, then it answers. When it is interrupted, it ends.
func TestEcho(t *testing.T) {
	program := build(t, "echo")
	n, port := start(t)
	const address = "127.0.0.1@tcp:12345:34:1"
	echo := exec.CommandContext(t.Context(), program, "-port", port, address)
	echo.Stderr = os.Stderr
	out, err := echo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := echo.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "listening at "+address {
		t.Fatalf("%q: %v", line, err)
	}
	m, err := transport.OpenMessenger(t.Context(), inproc.New(n), "127.0.0.2@tcp:12345:34:*")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	to, err := transport.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.Send(ctx, to, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	msg, err := m.Receive(ctx)
	if err != nil || string(msg.Data) != "hello" || msg.From != to {
		t.Errorf("%q from %v: %v", msg.Data, msg.From, err)
	}
	if err := echo.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := echo.Wait(); err != nil {
		t.Errorf("echo: %v", err)
	}
}
