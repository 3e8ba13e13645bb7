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

// Adopt returns a listener for the socket f, which another process has created. It duplicates f, which the
// caller must still close. It acquires the lock of the socket, if the socket has a file beside which the lock
// file can be. From now on the kernel reports this process as the one that listens. Close leaves the socket
// file in place. Adopt returns EADDRINUSE if another process holds the lock, and EPROTOTYPE if f is not a
// listening Unix socket.
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

// own acquires the lock of the socket and makes the kernel record this process as the one that listens.
func (l *Listener) own() (err error) {
	if strings.HasPrefix(l.path, "/") { // sockets without a file have no lock
		if l.lock, err = Lock(l.path); errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		// If the lock file cannot be created, own ignores this: another lnetd still detects by
		// connecting that the socket is in use.
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.Listen(int(fd), unix.SOMAXCONN) })
	return errors.Join(err, os.NewSyscallError("listen", inner))
}

// Reachable reports whether a process that connects to the socket's path reaches a listener. It does not if the
// socket file was removed while the socket is still open. Reachable makes a connection for this test and closes
// it immediately.
func (l *Listener) Reachable() bool {
	c, err := net.DialTimeout(l.Addr().Network(), l.path, patience)
	if err == nil {
		_ = c.Close()
	}
	return err == nil || errors.Is(err, syscall.EAGAIN) // the backlog is full
}
