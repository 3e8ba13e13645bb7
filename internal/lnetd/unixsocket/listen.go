package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PathMax is the maximum length of a socket's path in bytes: sun_path without the terminator.
const PathMax = 107

// mode lets the owner and the group connect.
const mode = 0o660

// patience is the timeout of a test connection to an existing socket.
const patience = 2 * time.Second

// Listener is a listening socket in the file system with its lock.
type Listener struct {
	*net.UnixListener
	path   string
	lock   *os.File // nil for an adopted socket without a lock
	leaves bool
}

// Listen creates a socket of the network "unix" or "unixpacket", with mode 0660, and acquires its
// lock. It sets the group unless group is negative. It replaces a socket file that a dead process
// has left. Listen returns EADDRINUSE if another process holds the lock or listens, EEXIST if path
// is another kind of file, and ENAMETOOLONG if path is too long.
func Listen(network, path string, group int) (*Listener, error) {
	if len(path) > PathMax {
		return nil, &pathError{len(path)}
	}
	lock, err := Lock(path)
	if err != nil {
		return nil, err
	}
	l, err := listenLocked(network, path, group)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &Listener{UnixListener: l, path: path, lock: lock}, nil
}

// pathError reports that a path is too long.
type pathError struct{ length int }

func (e *pathError) Error() string {
	return fmt.Sprintf("the path has %d bytes, but at most %d are possible", e.length, PathMax)
}

func (e *pathError) Unwrap() error { return syscall.ENAMETOOLONG }

// Path returns the socket's path.
func (l *Listener) Path() string { return l.path }

// LeaveFile sets whether Close leaves the socket file in place, because another process has a copy
// of the socket. It must be called before the listener is shared with other goroutines.
func (l *Listener) LeaveFile(leave bool) { l.leaves = leave }

// Close closes the socket, removes the socket file unless LeaveFile was set, and releases the lock.
// The lock file stays: removing it would let two processes lock different files. Further calls do
// nothing.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil // another process may hold the lock already
	}
	if !l.leaves {
		if rm := os.Remove(l.path); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// LockPath returns the path of a socket's lock file. The file holds the PID of its owner.
func LockPath(socket string) string { return socket + ".lock" }

// Lock acquires the lock of a socket until the returned file is closed. It returns EADDRINUSE if
// another process holds the lock.
func Lock(socket string) (*os.File, error) {
	path := LockPath(socket)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = syscall.EADDRINUSE
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// A process that fails to get the lock can read the owner here before the socket answers.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

// listenLocked creates the socket. The caller holds the lock.
func listenLocked(network, path string, group int) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("a file that is not a socket is in the way: %w", syscall.EEXIST)
	default:
		// The lock is free, but another program might still listen, on a socket of any type.
		c, err := net.DialTimeout(network, path, patience)
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) { // a busy listener counts too
			return nil, fmt.Errorf("another program listens on the socket: %w", syscall.EADDRINUSE)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// The mode is set before the file exists, so that it is never wider.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), mode) })
		return errors.Join(err, chmod)
	}}
	nl, err := lc.Listen(context.Background(), network, path)
	if err != nil {
		return nil, err
	}
	l := nl.(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	if group >= 0 {
		err = os.Chown(path, -1, group)
	}
	if err == nil {
		err = os.Chmod(path, mode) // restore bits that the umask removed
	}
	if err != nil {
		_ = l.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	return l, nil
}
