package clients

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wire is the connection to a client. It is a socket, except in tests.
type wire interface {
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	CloseRead() error
	Close() error
	// await calls f with the socket each time that a record may have arrived, until f returns true. It
	// returns an error if the read deadline has passed or the connection is closed.
	await(f func(fd int) bool) error
	// write calls f each time that there may be room to send a record, until f returns true. It returns
	// an error if the write deadline has passed or the connection is closed.
	write(f func() bool) error
	// put sends a record with control messages without blocking. It returns EAGAIN if the client has not
	// read earlier records and there is no room for another one.
	put(record, control []byte) error
	// hungUp reports whether the client has closed the connection.
	hungUp() bool
}

// socket is a wire over a Unix socket.
type socket struct {
	*net.UnixConn
	raw syscall.RawConn
}

func newSocket(conn *net.UnixConn) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &socket{UnixConn: conn, raw: raw}, nil
}

func (s *socket) await(f func(fd int) bool) error {
	return s.raw.Read(func(fd uintptr) bool { return f(int(fd)) })
}

func (s *socket) write(f func() bool) error { return s.raw.Write(func(uintptr) bool { return f() }) }

// put implements wire. The caller holds client.mu, so that no record follows the reason for a disconnect.
func (s *socket) put(record, control []byte) (err error) {
	if e := s.raw.Control(func(fd uintptr) {
		for {
			err = unix.Sendmsg(int(fd), record, control, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}); e != nil {
		return e
	}
	return err
}

func (s *socket) hungUp() bool {
	fds := []unix.PollFd{{}} // POLLHUP is always reported
	err := s.raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _ = unix.Poll(fds, 0)
	})
	return err == nil && fds[0].Revents&unix.POLLHUP != 0
}
