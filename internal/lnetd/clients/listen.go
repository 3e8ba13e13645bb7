package clients

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
)

// Listener is a socket that accepts clients. Listen creates one; others are inherited from another process
// such as systemd.
type Listener interface {
	net.Listener
	AcceptUnix() (*net.UnixConn, error)
	SyscallConn() (syscall.RawConn, error)
}

// Listen creates the socket to which clients connect, with mode 0660. The socket file gets the given group
// unless it is negative. Listen replaces the socket file of an lnetd that no longer runs. It returns
// EADDRINUSE if another process listens at the path, EEXIST if the path exists and is not a socket, and
// ENAMETOOLONG if the path is too long.
func Listen(path string, group int) (*unixsocket.Listener, error) {
	l, err := unixsocket.Listen("unixpacket", path, group)
	if err != nil {
		return nil, fmt.Errorf("clients: listen at %s: %w", path, err)
	}
	return l, nil
}

// checkType returns an error if the listener's socket, which may come from another process, is not of
// type SOCK_SEQPACKET.
func checkType(l Listener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return fmt.Errorf("clients: read the type of the socket: %w", err)
	}
	var kind int
	var inner error
	if err := raw.Control(func(fd uintptr) { kind, inner = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE) }); err != nil {
		return fmt.Errorf("clients: read the type of the socket: %w", err)
	}
	if inner != nil {
		return fmt.Errorf("clients: read SO_TYPE of the socket: %w", inner)
	}
	if kind != unix.SOCK_SEQPACKET {
		return fmt.Errorf("clients: %v is not a SOCK_SEQPACKET socket: %w", l.Addr(), syscall.EPROTOTYPE)
	}
	return nil
}
