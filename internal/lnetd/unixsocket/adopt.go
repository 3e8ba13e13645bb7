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

// Adopt returns a listener for a socket that another process has created, and acquires its lock if
// its path allows one. f is duplicated. Close leaves the socket file in place. From now on the
// kernel reports this process as the owner of the socket. Adopt returns EADDRINUSE if another
// process holds the lock, and EPROTOTYPE if f is not a listening socket in the file system.
func Adopt(f *os.File) (*Listener, error) {
	nl, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	ul, ok := nl.(*net.UnixListener)
	if !ok {
		_ = nl.Close()
		return nil, fmt.Errorf("%v is not a socket in the file system: %w", nl.Addr(), syscall.EPROTOTYPE)
	}
	l := &Listener{UnixListener: ul, path: ul.Addr().String(), leaves: true}
	if err := l.own(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// own acquires the lock and makes the kernel record this process as the listener.
func (l *Listener) own() (err error) {
	if strings.HasPrefix(l.path, "/") { // sockets without a file have no lock
		if l.lock, err = Lock(l.path); errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		// If the lock file cannot be created, another lnetd still notices that the socket is in
		// use.
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.Listen(int(fd), unix.SOMAXCONN) })
	return errors.Join(err, os.NewSyscallError("listen", inner))
}

// Reachable reports whether connecting to the socket's path reaches a listener: the file may have
// been removed while the socket is still open. The listener gets one connection that is closed at
// once.
func (l *Listener) Reachable() bool {
	c, err := net.DialTimeout(l.Addr().Network(), l.path, patience)
	if err == nil {
		_ = c.Close()
	}
	return err == nil || errors.Is(err, syscall.EAGAIN) // the backlog is full
}
