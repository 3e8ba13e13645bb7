package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

func TestListenMakesThePrivateDirectoryAndSocket(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "run", "lnetd", "control.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != fs.ModeSocket|0o660 {
		t.Errorf("mode %v", got)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", dir.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file stays: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestListenNamesTheOwner checks that a second daemon reports the version and PID of the first,
// which it asks over the socket.
func TestListenNamesTheOwner(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	startServer(t, path, &fakeBackend{version: api.Version{Program: "lnetd", Version: "v9.8.7", PID: os.Getpid()}})
	_, err := Listen(path)
	f := wantFault(t, err, api.CodeSocketInUse)
	for _, want := range []string{"pid " + itoa(os.Getpid()), "lnetd v9.8.7", filepath.Base(os.Args[0])} {
		if !strings.Contains(f.Cause, want) {
			t.Errorf("cause %q does not name %q", f.Cause, want)
		}
	}
	if !errors.Is(err, syscall.EADDRINUSE) || f.Remedy == "" {
		t.Errorf("error %#v", f)
	}
}

// TestListenNamesTheLockHolder checks that a daemon that holds the lock but does not answer yet is
// named too.
func TestListenNamesTheLockHolder(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	lock, err := unixsocket.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	_, err = Listen(path)
	if f := wantFault(t, err, api.CodeSocketInUse); !strings.Contains(f.Cause, "pid "+itoa(os.Getpid())) {
		t.Errorf("cause %q", f.Cause)
	}
}

// TestListenLeavesAForeignListenerAlone checks that a program that listens without the lock is
// named by its PID.
func TestListenLeavesAForeignListenerAlone(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	foreign, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = foreign.Close() }()
	go func() { // a listener that does not speak HTTP
		for {
			c, err := foreign.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, err = Listen(path)
	if f := wantFault(t, err, api.CodeSocketInUse); !strings.Contains(f.Cause, "pid "+itoa(os.Getpid())) {
		t.Errorf("cause %q", f.Cause)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the foreign socket is gone: %v", err)
	}
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestListenDoesNotRemoveOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Listen(path)
	wantFault(t, err, api.CodeSocketUnusable)
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Errorf("file changed: %q, %v", b, err)
	}
}

func TestListenSaysThatThePathIsTooLong(t *testing.T) {
	_, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", unixsocket.PathMax)))
	if f := wantFault(t, err, api.CodeSocketUnusable); !strings.Contains(f.Cause, "at most 107 are possible") {
		t.Errorf("cause %q", f.Cause)
	}
}

// TestRunDirMustBeOurOwn checks the run directory below a directory that is writable for all. A
// directory or link that another user may have created there is refused. A directory that the
// operator chose is accepted with any mode.
func TestRunDirMustBeOurOwn(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	own := api.SharedRunDir(os.Geteuid(), tmp)
	listens := func(dir string) error {
		l, err := Listen(filepath.Join(dir, "control.sock"))
		if err != nil {
			return err
		}
		return l.Close()
	}

	if err := os.Symlink(t.TempDir(), own); err != nil {
		t.Fatal(err)
	}
	if f := wantFault(t, listens(own), api.CodeSocketUnusable); !strings.Contains(f.Cause, "not a directory that belongs to this user") {
		t.Errorf("a link: cause %q", f.Cause)
	}
	for name, mode := range map[string]fs.FileMode{"own": 0o700, "anybody's": 0o777} {
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Mkdir(own, mode), os.Chmod(own, mode)); err != nil {
			t.Fatal(err)
		}
		if err := listens(own); (err == nil) != (mode == 0o700) {
			t.Errorf("%s: %v", name, err)
		}
	}
	chosen := filepath.Join(tmp, "chosen")
	if err := errors.Join(os.Mkdir(chosen, 0o777), os.Chmod(chosen, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := listens(chosen); err != nil {
		t.Errorf("chosen: %v", err)
	}
}

// TestSocketOnAFullDisk checks that a full file system and an exhausted quota have their own
// remedies.
func TestSocketOnAFullDisk(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "the file system of /run/lnetd/s is full",
		syscall.EDQUOT: "the quota on the file system of /run/lnetd/s is used up",
		syscall.EACCES: "check the directory and its permissions",
	} {
		err := unusable("/run/lnetd/s", &fs.PathError{Op: "mkdir", Path: "/run/lnetd", Err: errno})
		if f := wantFault(t, err, api.CodeSocketUnusable); !strings.HasPrefix(f.Remedy, want) || f.Errno != -int(errno) {
			t.Errorf("%v: %+v", errno, f)
		}
	}
}
