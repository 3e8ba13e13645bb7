package systemd

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is a kind of listening socket.
type Kind int

// The kinds of listening sockets. The comments show the line of a socket unit that creates such a socket.
const (
	UnixStream Kind = iota // ListenStream=/PATH
	UnixPacket             // ListenSequentialPacket=/PATH
	TCP                    // ListenStream=[ADDRESS:]PORT
)

// Line returns the line of a socket unit that creates a socket of this kind, for messages.
func (k Kind) Line() string {
	return [...]string{"ListenStream=/PATH", "ListenSequentialPacket=/PATH", "ListenStream=ADDRESS:PORT"}[k]
}

// Check returns nil if f is a listening socket of this kind. It returns EPROTOTYPE if f is a socket of another
// kind, and EINVAL if it does not listen.
func (k Kind) Check(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	return errors.Join(raw.Control(func(fd uintptr) { inner = k.check(int(fd)) }), inner)
}

func (k Kind) check(fd int) error {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return fmt.Errorf("the passed file is not a socket: %w", err)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return err
	}
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return err
	}
	fits := kind == unix.SOCK_STREAM
	if k == UnixPacket {
		fits = kind == unix.SOCK_SEQPACKET
	}
	if k == TCP {
		fits = fits && (domain == unix.AF_INET || domain == unix.AF_INET6)
	} else {
		fits = fits && domain == unix.AF_UNIX
	}
	switch {
	case !fits:
		return fmt.Errorf("the socket is of another type than one of the line %s: %w", k.Line(), syscall.EPROTOTYPE)
	case listens == 0:
		return fmt.Errorf("the socket does not listen for connections; its unit must not have Accept=yes: %w", syscall.EINVAL)
	}
	return nil
}
