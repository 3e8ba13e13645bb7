package unixsocket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Adopt makes a listener of a copy of a socket that another process has made, and takes its
// lock, if there can be one. Close leaves the socket file where it is. From now on the kernel
// names this process to who asks whose the socket is. EADDRINUSE: somebody has the lock;
// EPROTOTYPE: it is no listener in the file system.
func Adopt(f *os.File) (*Listener, error) {
	nl, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	ul, ok := nl.(*net.UnixListener)
	if !ok {
		_ = nl.Close()
		return nil, fmt.Errorf("%v is no socket in the file system: %w", nl.Addr(), syscall.EPROTOTYPE)
	}
	l := &Listener{UnixListener: ul, path: ul.Addr().String(), leaves: true}
	if err := l.own(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// own takes the lock and the kernel's note of who listens.
func (l *Listener) own() (err error) {
	if strings.HasPrefix(l.path, "/") { // others have no file
		if l.lock, err = Lock(l.path); errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		// Where no lock can be made another lnetd finds that somebody listens.
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.Listen(int(fd), unix.SOMAXCONN) })
	return errors.Join(err, os.NewSyscallError("listen", inner))
}

// Reachable tells whether somebody who connects to the socket's path finds a listener: a file
// can be removed while the socket goes on. The listener gets one connection that is closed.
func (l *Listener) Reachable() bool {
	c, err := net.DialTimeout(l.Addr().Network(), l.path, patience)
	if err == nil {
		_ = c.Close()
	}
	return err == nil || errors.Is(err, syscall.EAGAIN) // too many wait already
}
