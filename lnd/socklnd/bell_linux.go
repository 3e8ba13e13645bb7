package socklnd

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostBell is an epoll instance that contains only the stream's socket. Go's poller waits for events of the
// epoll as it waits for events of the socket itself. While the bell is muted, the epoll does not wait for
// bytes on the socket.
type hostBell struct {
	stream *hostStream
	epoll  int
	file   *os.File // the epoll as a file, on which Go's poller waits
	raw    syscall.RawConn
	events [1]unix.EpollEvent

	// muteFn and unmuteFn are what Mute calls. They are created once, so that Mute allocates nothing, and
	// store their result in err.
	muteFn, unmuteFn func(fd uintptr)
	err              error
}

const bytesOrEnd = unix.EPOLLIN | unix.EPOLLRDHUP

// Bell implements Pollable.
func (s *hostStream) Bell() (Bell, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // os.NewFile passes only non-blocking files to Go's poller
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	b := &hostBell{stream: s, epoll: epoll, file: os.NewFile(uintptr(epoll), "bell")}
	b.unmuteFn = func(fd uintptr) { b.err = b.control(unix.EPOLL_CTL_MOD, fd, bytesOrEnd) }
	b.muteFn = func(fd uintptr) {
		if b.err = b.control(unix.EPOLL_CTL_MOD, fd, 0); b.err == nil {
			b.settle()
		}
	}
	b.raw, err = b.file.SyscallConn()
	err = errors.Join(err, b.file.SetReadDeadline(time.Time{}), // fails if Go's poller does not accept the file
		control(s.raw, func(fd int) error { return b.control(unix.EPOLL_CTL_ADD, uintptr(fd), bytesOrEnd) }))
	if err != nil {
		b.Close()
		return nil, err
	}
	s.bell.Store(b)
	return b, nil
}

// control changes the events for which the epoll watches the socket fd.
func (b *hostBell) control(operation int, fd uintptr, events uint32) error {
	e := unix.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(b.epoll, operation, int(fd), &e))
}

// settle consumes a pending event of a muted epoll. The epoll reports an event to Go's poller only when it is
// new, so a pending one would suppress the report after Mute(false).
func (b *hostBell) settle() { _, _ = unix.EpollWait(b.epoll, b.events[:], 0) }

// Attend implements Bell.
func (b *hostBell) Attend(f func() bool) error {
	err := b.raw.Read(func(uintptr) bool { return f() })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.Join(os.ErrDeadlineExceeded, b.file.SetReadDeadline(time.Time{}))
	}
	return err
}

// Mute implements Bell.
func (b *hostBell) Mute(on bool) error {
	f := b.unmuteFn
	if on {
		f = b.muteFn
	}
	if err := b.stream.raw.Control(f); err != nil {
		return plain(err)
	}
	return b.err
}

// Ring implements Bell.
func (b *hostBell) Ring() { _ = b.file.SetReadDeadline(pastDeadline) } // fails only on a closed bell, on which no goroutine waits

// Close implements Bell.
func (b *hostBell) Close() { _ = b.file.Close() }
