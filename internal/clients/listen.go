package clients

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/unixsocket"
)

// Listener is where clients connect: a socket of Listen, or one that others have made.
type Listener interface {
	net.Listener
	AcceptUnix() (*net.UnixConn, error)
	SyscallConn() (syscall.RawConn, error)
}

// Listen makes the socket that clients connect to, with mode 0660, and a group, unless that
// is negative. What a dead lnetd has left is replaced. EADDRINUSE: somebody has it; EEXIST:
// there is a file that is no socket; ENAMETOOLONG.
func Listen(path string, group int) (*unixsocket.Listener, error) {
	l, err := unixsocket.Listen("unixpacket", path, group)
	if err != nil {
		return nil, fmt.Errorf("clients: listen at %s: %w", path, err)
	}
	return l, nil
}

// checkType is nil if a listener, which others may have made, is of the type that records
// need.
func checkType(l Listener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	var kind int
	var inner error
	if err := raw.Control(func(fd uintptr) { kind, inner = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE) }); err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	if inner != nil {
		return fmt.Errorf("clients: SO_TYPE: %w", inner)
	}
	if kind != unix.SOCK_SEQPACKET {
		return fmt.Errorf("clients: %v is no socket of sequential packets: %w", l.Addr(), syscall.EPROTOTYPE)
	}
	return nil
}
