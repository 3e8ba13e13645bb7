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

// PathMax is the longest path that a socket can have, in bytes: sun_path without its
// terminator.
const PathMax = 107

// mode lets owner and group connect.
const mode = 0o660

// patience bounds the question whether somebody listens.
const patience = 2 * time.Second

// Listener is a socket in the file system, and its lock.
type Listener struct {
	*net.UnixListener
	path   string
	lock   *os.File // nil: one of Adopt's that has none
	leaves bool
}

// Listen makes a socket of a network, "unix" or "unixpacket", with mode 0660, and a group,
// unless that is negative, and takes its lock. A file that a dead process left is replaced.
// EADDRINUSE: somebody has the lock, or listens; EEXIST: there is another file;
// ENAMETOOLONG.
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

// pathError is a path of so many bytes.
type pathError struct{ length int }

func (e *pathError) Error() string {
	return fmt.Sprintf("the path has %d bytes, at most %d fit", e.length, PathMax)
}

func (e *pathError) Unwrap() error { return syscall.ENAMETOOLONG }

// Path is the socket's path.
func (l *Listener) Path() string { return l.path }

// LeaveFile has Close leave the socket file where it is, or not: somebody else has a copy of
// the socket, and keeps it. Who calls it does so before others have the listener.
func (l *Listener) LeaveFile(leave bool) { l.leaves = leave }

// Close stops listening, removes the socket file, if nobody else keeps it, and gives the lock
// back. The lock file stays: removing it would let two processes lock different files. Calls
// that follow do nothing.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil // and the lock is another's already
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

// LockPath is the path of the lock file of a socket: its owner's PID stands there.
func LockPath(socket string) string { return socket + ".lock" }

// Lock takes the lock of a socket, until the file is closed. EADDRINUSE: somebody has it.
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
	// Who finds the lock taken before the socket answers reads the owner here.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

// listenLocked makes the socket; the caller holds the lock.
func listenLocked(network, path string, group int) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("there is a file that is not a socket: %w", syscall.EEXIST)
	default:
		// Nobody holds the lock, but another program might still listen, on a socket of
		// whatever type.
		c, err := net.DialTimeout(network, path, patience)
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) { // not even if it is too busy to answer
			return nil, fmt.Errorf("another program listens: %w", syscall.EADDRINUSE)
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
		err = os.Chmod(path, mode) // what the umask took
	}
	if err != nil {
		_ = l.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	return l, nil
}
