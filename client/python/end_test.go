package python

import (
	"bufio"
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// start starts an lnetd at a path. The function that it returns stops it.
func start(t *testing.T, core transport.Core, path string, incarnation uint64) (stop func()) {
	t.Helper()
	server, err := clients.New(clients.Config{Core: core, Incarnation: incarnation})
	if err != nil {
		t.Fatal(err)
	}
	l, err := clients.Listen(path, -1)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// When lnetd stops, the example that echoes says so, and serves again when another lnetd runs. A signal ends it.
func TestEcho(t *testing.T) {
	const address = "10.0.0.1@tcp:12345:34:7"
	network := mem.New(mem.Config{})
	core, path := network.Host(mustNID(t, "10.0.0.1@tcp")), filepath.Join(testenv.SocketDir(t), "s")
	_, other := tmpeer.Serve(t, network.Host(mustNID(t, "10.0.0.2@tcp")))
	server := python(t, "examples/echo.py", "--socket", path, address)
	stop := start(t, core, path, 1)
	server.Stdout = nil
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for incarnation := range uint64(2) {
		if !lines.Scan() || lines.Text() != address {
			t.Errorf("the server says %q", lines.Text())
		}
		if got := python(t, "testdata/ask.py", other, address).mustPrint(t); got != "ok\n" {
			t.Errorf("it prints %q", got)
		}
		if incarnation == 0 {
			stop()
			stop = start(t, core, path, 2)
		}
	}
	if err := server.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &server.complaints)
	}
	if got := server.complaints.String(); !strings.HasPrefix(got, "the connection has ended: [Errno 108] ") {
		t.Errorf("it says\n%s", got)
	}
	stop()
}
