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

// PathMax is the maximum length of a socket's path in bytes. It is the size of sun_path without the terminating
// zero.
const PathMax = 107

// mode is the mode of socket files. It permits the owner and the group to connect.
const mode = 0o660

// patience is the timeout for connecting to an existing socket to find out whether a process listens on it.
const patience = 2 * time.Second

// Listener is a listening Unix socket in the file system, together with its lock.
type Listener struct {
	*net.UnixListener
	path   string
	lock   *os.File // the locked file; nil if an adopted socket has no lock
	leaves bool     // Close leaves the socket file in place
}

// Listen creates a listening socket at path, with mode 0660, and acquires its lock. The network is "unix" or
// "unixpacket". The socket file gets the given group unless group is negative. Listen replaces the socket file
// of a process that no longer runs. It returns EADDRINUSE if another process holds the lock or listens at path,
// EEXIST if a file at path is not a socket, and ENAMETOOLONG if path is too long.
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

// pathError is the error of a path that is too long. It wraps ENAMETOOLONG.
type pathError struct{ length int }

func (e *pathError) Error() string {
	return fmt.Sprintf("the path has %d bytes, but at most %d are possible", e.length, PathMax)
}

func (e *pathError) Unwrap() error { return syscall.ENAMETOOLONG }

// Path returns the socket's path.
func (l *Listener) Path() string { return l.path }

// LeaveFile sets whether Close leaves the socket file in place. The caller sets this if another process has a
// copy of the socket, which would otherwise be unreachable. It must be called before the listener is shared
// with other goroutines.
func (l *Listener) LeaveFile(leave bool) { l.leaves = leave }

// Close closes the socket, removes the socket file unless LeaveFile was set, and releases the lock. The lock
// file stays, because two processes could lock different files if it were removed. Further calls do nothing.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil // closed before; the lock and the file may belong to another process now
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

// LockPath returns the path of the lock file of the socket at a path. The file contains the PID of the process
// that has locked it.
func LockPath(socket string) string { return socket + ".lock" }

// Lock acquires the lock of the socket at a path, without waiting. Closing the returned file releases the lock.
// Lock returns EADDRINUSE if another process holds the lock.
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
	// Another process that does not get the lock can read in the file which process has it, even
	// before that process answers on the socket.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

// listenLocked does the work of Listen after the lock has been acquired.
func listenLocked(network, path string, group int) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("a file that is not a socket already exists there: %w", syscall.EEXIST)
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
