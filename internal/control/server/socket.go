package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/client"
)

// socketPathMax is the longest path that a socket can have, in bytes: sun_path
// without its terminator.
const socketPathMax = 107

// socketMode lets owner and group talk to the daemon.
const socketMode = 0o660

// ownerPatience bounds the question who owns a socket.
const ownerPatience = 2 * time.Second

// Listener is a control socket in the file system. A lock file beside it tells
// a living owner from a file that a dead one left.
type Listener struct {
	*net.UnixListener
	path string
	lock *os.File
}

// Listen makes the control socket at path, with mode 0660, and takes its lock.
// A socket file that a dead process left is replaced. If another process owns
// it the error is a Fault that names that process.
func Listen(path string) (*Listener, error) {
	if len(path) > socketPathMax {
		return nil, unusable(path, fmt.Errorf("the path has %d bytes, at most %d fit", len(path), socketPathMax))
	}
	if err := makeRunDir(filepath.Dir(path)); err != nil {
		return nil, unusable(path, err)
	}
	lock, err := takeLock(path + ".lock")
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, inUse(path, ownerOf(path))
	}
	if err != nil {
		return nil, unusable(path, err)
	}
	l, err := listenLocked(path)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &Listener{UnixListener: l, path: path, lock: lock}, nil
}

// Path is the socket's path.
func (l *Listener) Path() string { return l.path }

// Close stops listening, removes the socket file and gives the lock back. The
// lock file stays: removing it would let two processes lock different files.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil // and the lock is another's already
	}
	if rm := os.Remove(l.path); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return errors.Join(err, l.lock.Close())
}

func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Who finds the lock taken before the socket answers reads the owner here.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

// listenLocked makes the socket; the caller holds the lock.
func listenLocked(path string) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, unusable(path, err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, unusable(path, errors.New("there is a file that is not a socket"))
	default:
		// Nobody holds the lock, but another program might still listen.
		if c, err := net.DialTimeout("unix", path, ownerPatience); err == nil {
			_ = c.Close()
			return nil, inUse(path, ownerOf(path))
		}
		if err := os.Remove(path); err != nil {
			return nil, unusable(path, err)
		}
	}
	// The mode is set before the file exists, so that it is never wider.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), socketMode) })
		return errors.Join(err, chmod)
	}}
	nl, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, unusable(path, err)
	}
	l := nl.(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, socketMode); err != nil { // what the umask took
		_ = l.Close()
		return nil, unusable(path, err)
	}
	return l, nil
}

// ownerOf finds out who owns the socket: from the daemon itself, from the
// kernel, which knows who called listen, or from the lock file.
func ownerOf(path string) api.Process {
	conn, err := net.DialTimeout("unix", path, ownerPatience)
	if err != nil {
		return lockHolder(path + ".lock")
	}
	defer func() { _ = conn.Close() }()
	p := api.ListenerOf(conn)
	ctx, cancel := context.WithTimeout(context.Background(), ownerPatience)
	defer cancel()
	c := client.New(path)
	defer c.Close()
	if v, err := c.Version(ctx); err == nil {
		p.Program, p.Version = v.Program, v.Version
		if p.PID <= 0 {
			p.PID = v.PID
		}
	}
	return p
}

func lockHolder(path string) api.Process {
	b, err := os.ReadFile(path)
	if err != nil {
		return api.Process{UID: -1}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return api.Process{UID: -1}
	}
	return api.FindProcess(pid)
}

func inUse(path string, owner api.Process) error {
	return api.Fault{
		Code:   api.CodeSocketInUse,
		Errno:  -int(unix.EADDRINUSE),
		Text:   fmt.Sprintf("control socket %s is in use", path),
		Cause:  "it belongs to " + owner.String(),
		Remedy: "stop that process, or give this one a socket of its own with --control-socket",
	}.Because(unix.EADDRINUSE)
}

func unusable(path string, err error) error {
	return api.Fault{
		Code:   api.CodeSocketUnusable,
		Errno:  -int(api.Errno(err)),
		Text:   fmt.Sprintf("control socket %s cannot be made", path),
		Remedy: "check the directory and its rights, or name another path with --control-socket",
	}.Because(err)
}
