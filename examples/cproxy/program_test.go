package cproxy

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

const (
	port     = 9987 // UDP port of all nodes
	patience = time.Minute
)

// nid returns the NID of node k. Each test process uses other addresses.
func nid(k int) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(udplnd.Type, 0), address(k)) }

func address(k int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(k)})
}

var compiled struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if compiled.path != "" {
		_ = os.RemoveAll(filepath.Dir(compiled.path)) // created by MkdirTemp
	}
	os.Exit(status)
}

// compile compiles the proxy.
func compile(compiler, path string, options ...string) error {
	arguments := append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", path}, options...)
	out, err := exec.Command(compiler, append(arguments, "cproxy.c", "udp.c")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return nil
}

// sanitized returns the path of a proxy that ends with an error when it accesses memory wrongly or has an overflow.
func sanitized(t testing.TB) string {
	t.Helper()
	testenv.NeedCommand(t, "gcc", "gcc")
	compiled.once.Do(func() {
		dir, err := os.MkdirTemp("", "cproxy")
		if err != nil {
			compiled.err = err
			return
		}
		compiled.path = filepath.Join(dir, "cproxy")
		compiled.err = compile("gcc", compiled.path, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	})
	if compiled.err != nil {
		t.Fatal(compiled.err)
	}
	return compiled.path
}

// program is a proxy in another process.
type program struct {
	t   testing.TB
	cmd *exec.Cmd

	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
}

// Write appends to what the proxy has printed.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

// printed returns what the proxy has printed.
func (p *program) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// start starts a proxy for node k.
func start(t testing.TB, path, socket string, k int) *program {
	t.Helper()
	return startAt(t, path, socket, k, port)
}

// startAt starts a proxy for node k that uses another UDP port.
func startAt(t testing.TB, path, socket string, k, port int) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(path, socket, address(k).String(), fmt.Sprint(port))}
	p.cmd.Stderr = p
	p.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // the search for leaks sometimes does not end
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

// stop ends the proxy with SIGTERM, and checks that no sanitizer complains.
func (p *program) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the proxy ended with %v; it printed\n%s", err, p.printed())
	}
}

// kill ends the proxy at once.
func (p *program) kill() {
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Error(err)
	}
	_ = p.cmd.Wait() // signal: killed
}

// waitFor waits until the proxy has printed the text n times.
func (p *program) waitFor(text string, n int) {
	p.t.Helper()
	for end := time.Now().Add(patience); strings.Count(p.printed(), text) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("the proxy does not print %q %d times, but\n%s", text, n, p.printed())
		}
	}
}

// checkAttached checks that lnetd has not cut off the proxy.
func (p *program) checkAttached() {
	p.t.Helper()
	if printed := p.printed(); strings.Contains(printed, "lnetd:") {
		p.t.Fatalf("the proxy printed\n%s", printed)
	}
}

// eventually waits until f returns true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

// socketPath returns a path for the socket of a server.
func socketPath(t testing.TB) string { return filepath.Join(testenv.SocketDir(t), "s") }

// serve starts a server of proxies, and returns a function that ends it.
func serve(t testing.TB, c uplnd.Config, socket string) (*uplnd.Server, func()) {
	t.Helper()
	server, err := uplnd.NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	end := sync.OnceFunc(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return server, end
}
