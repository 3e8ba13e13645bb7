package unixsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stale leaves a socket file without a listener.
func stale(t *testing.T, network, path string) {
	t.Helper()
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOneOfMany: given a stale socket file, when many call Listen at the same time, then exactly
// one gets the socket. None of the others removes its file. After Close the next one can listen.
func TestOneOfMany(t *testing.T) {
	for _, network := range []string{"unix", "unixpacket"} {
		path := filepath.Join(t.TempDir(), "s")
		for range 20 {
			stale(t, network, path)
			var mu sync.Mutex
			var winners []*Listener
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					l, err := Listen(network, path, os.Getegid())
					if err != nil {
						if !errors.Is(err, syscall.EADDRINUSE) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					defer mu.Unlock()
					winners = append(winners, l)
				})
			}
			group.Wait()
			if len(winners) != 1 {
				t.Fatalf("%d have the socket", len(winners))
			}
			conn, err := net.Dial(network, path)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			if err := errors.Join(winners[0].Close(), winners[0].Close()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file is still there: %v", err)
			}
		}
	}
}

// TestLeftAlone checks that Listen does not replace a listener without a lock, of any socket type,
// or a file that is not a socket. A failed attempt leaves nothing behind.
func TestLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, network := range []string{"unix", "unixpacket"} {
		path := filepath.Join(dir, network)
		l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []string{"unix", "unixpacket"} {
			if _, err := Listen(wanted, path, -1); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s where %s is: %v", wanted, network, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		again, err := Listen(network, path, -1)
		if err != nil {
			t.Fatal(err)
		}
		if again.Path() != path {
			t.Errorf("at %s", again.Path())
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix", file, -1); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("at a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// TestLongPath checks that the error for a path that is too long names both lengths.
func TestLongPath(t *testing.T) {
	_, err := Listen("unixpacket", "/"+strings.Repeat("x", PathMax), -1)
	if !errors.Is(err, syscall.ENAMETOOLONG) || !strings.Contains(err.Error(), "108 bytes, but at most 107") {
		t.Error(err)
	}
}

// TestListenBesideABusyOne checks that a listener with a full backlog is not replaced.
func TestListenBesideABusyOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	other, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(other) }()
	if err := errors.Join(unix.Bind(other, &unix.SockaddrUnix{Name: path}), unix.Listen(other, 0)); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the backlog is full
		fd, e := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if e != nil {
			t.Fatal(e)
		}
		defer func() { _ = unix.Close(fd) }()
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	}
	if l, err := Listen("unix", path, -1); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, %v", l, err)
	}
}
