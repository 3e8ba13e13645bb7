package unixsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAdopt checks that a socket of another process is adopted together with its lock, and that
// clients which already wait on it are served. Close leaves the file in place unless
// LeaveFile(false) was called.
func TestAdopt(t *testing.T) {
	for _, network := range []string{"unix", "unixpacket"} {
		path := filepath.Join(t.TempDir(), "s")
		first, err := Listen(network, path, -1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := first.File()
		if err != nil {
			t.Fatal(err)
		}
		if l, err := Adopt(f); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("while another has it: %v, %v", l, err)
		}
		first.LeaveFile(true)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		early, err := net.Dial(network, path)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Adopt(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		served, err := second.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if second.Path() != path || !second.Reachable() {
			t.Errorf("at %s, reachable %v", second.Path(), second.Reachable())
		}
		if l, err := Listen(network, path, -1); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a third: %v, %v", l, err)
		}
		_, _ = early.Close(), served.Close()
		second.LeaveFile(false)
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file: %v", err)
		}
	}
}

// TestAdoptNot checks that a socket without its file is not Reachable, and that Adopt refuses files
// that are not listening sockets in the file system.
func TestAdoptNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen("unix", path, -1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := first.File()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil { // removes the file too
		t.Error(err)
	}
	l, err := Adopt(f)
	if err != nil {
		t.Fatal(err)
	}
	if l.Reachable() {
		t.Error("reachable without a file")
	}
	_, _ = f.Close(), l.Close()

	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	if f, err = tcp.File(); err != nil {
		t.Fatal(err)
	}
	if l, err := Adopt(f); !errors.Is(err, syscall.EPROTOTYPE) {
		t.Errorf("TCP: %v, %v", l, err)
	}
	_ = f.Close()
	if f, err = os.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if l, err := Adopt(f); err == nil {
		t.Errorf("a directory: %v", l)
	}
	_ = f.Close()
}
