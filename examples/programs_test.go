package examples

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
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
	echo := startEcho(t, program, port, address)
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

// Given an lnetd, when client is called without an address, then it sends the message to itself. When it is called with
// the address of a program on another node that answers, then it prints the answer.
func TestClient(t *testing.T) {
	client, echo := build(t, "client"), build(t, "echo")
	port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	socket := startDaemon(t, "127.0.0.2@tcp", port)
	out, err := exec.CommandContext(t.Context(), client, "-socket", socket).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), `"hello" from 0@lo:12345:34:`) {
		t.Errorf("to itself: %v\n%s", err, out)
	}

	const address = "127.0.0.1@tcp:12345:34:1"
	startEcho(t, echo, strconv.Itoa(port), address)
	from := []string{"-socket", socket, "-from", "127.0.0.2@tcp:12345:34:*", "-message", "good morning"}
	out, err = exec.CommandContext(t.Context(), client, append(from, address)...).CombinedOutput()
	if err != nil || string(out) != `"good morning" from `+address+"\n" {
		t.Errorf("to echo: %v\n%s", err, out)
	}
}

// Given survive, echo on another node, and an lnetd, when lnetd is killed, and started again later, then survive
// connects again, and goes on with the number that has no answer yet. When it is interrupted, it ends.
func TestSurvive(t *testing.T) {
	survive, echo := build(t, "survive"), build(t, "echo")
	port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	launch, socket := prepareDaemon(t, "127.0.0.2@tcp", port)
	daemon := daemontest.Run(t, launch)
	const address = "127.0.0.1@tcp:12345:34:1"
	startEcho(t, echo, strconv.Itoa(port), address)
	program := exec.CommandContext(t.Context(), survive, "-socket", socket, "-from", "127.0.0.2@tcp:12345:34:*", address)
	var complaints bytes.Buffer
	program.Stderr = &complaints
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	answers, lines := 0, bufio.NewScanner(out)
	next := func() bool { // reads a line and reports whether it is the next answer
		if !lines.Scan() {
			t.Fatalf("survive ends after %d answers: %v\n%s", answers, program.Wait(), &complaints)
		}
		is := lines.Text() == fmt.Sprint("answer ", answers+1)
		if is {
			answers++
		} else if lines.Text() != "connected again" {
			t.Fatalf("after answer %d survive says %q", answers, lines.Text())
		}
		return is
	}
	next()
	for range 2 {
		daemon.Kill(t)
		daemon = daemontest.Run(t, launch)
		for next() { // until survive has connected again
		}
		if !next() {
			t.Errorf("after it has connected again survive says %q", lines.Text())
		}
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := program.Wait(); err != nil {
		t.Errorf("survive: %v\n%s", err, &complaints)
	}
}

// startDaemon starts an lnetd with one NID and returns the path of its socket for programs.
func startDaemon(t *testing.T, nid string, port int) string {
	t.Helper()
	launch, socket := prepareDaemon(t, nid, port)
	daemontest.Run(t, launch)
	return socket
}

// prepareDaemon builds lnetd, and returns how to start it with one NID, and the path of its socket for programs.
func prepareDaemon(t *testing.T, nid string, port int) (launch daemontest.Launch, socket string) {
	t.Helper()
	programs, dir := t.TempDir(), testenv.SocketDir(t)
	if err := daemontest.Build(programs); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "lnetd.sock")
	control := filepath.Join(dir, "control.sock")
	config := filepath.Join(programs, "lnetd.yaml")
	if err := os.WriteFile(config, []byte("lnetd: {transport: {socket: "+socket+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return daemontest.Launch{
		Name: "lnetd", Programs: programs, Socket: control,
		Command: []string{
			filepath.Join(programs, "lnetd"), "--config", config, "--control-socket", control,
			"--net", nid, "--port", strconv.Itoa(port),
		},
	}, socket
}

// startEcho starts echo and waits until it listens.
func startEcho(t *testing.T, program, port, address string) *exec.Cmd {
	t.Helper()
	echo := exec.CommandContext(t.Context(), program, "-port", port, address)
	echo.Stderr = os.Stderr
	out, err := echo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := echo.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Wait() }) // the context has ended it, or the test has waited for it
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "listening at "+address {
		t.Fatalf("%q: %v", line, err)
	}
	return echo
}
