package socklnd

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostBell is an epoll with the socket in it, at which Go's poller looks as it does at
// the socket itself. A muted one has the socket taken out: if that stayed, and only what it is
// there for changed, putting that back would not ring for what has come meanwhile.
type hostBell struct {
	stream *hostStream
	epoll  int
	file   *os.File // the epoll
	raw    syscall.RawConn

	// addFn and removeFn are Mute, made once; err is what has become of them.
	addFn, removeFn func(fd uintptr)
	err             error
}

// Bell implements Pollable.
func (s *hostStream) Bell() (Bell, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // so that Go's poller takes it
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	b := &hostBell{stream: s, epoll: epoll, file: os.NewFile(uintptr(epoll), "bell")}
	b.addFn = func(fd uintptr) { b.err = b.control(unix.EPOLL_CTL_ADD, fd) }
	b.removeFn = func(fd uintptr) { b.err = b.control(unix.EPOLL_CTL_DEL, fd) }
	b.raw, err = b.file.SyscallConn()
	if err := errors.Join(err, b.Mute(false)); err != nil {
		b.Close()
		return nil, err
	}
	s.bell.Store(b)
	return b, nil
}

// control has the socket join the epoll, or leave it.
func (b *hostBell) control(operation int, fd uintptr) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(b.epoll, operation, int(fd), &e))
}

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
	f := b.addFn
	if on {
		f = b.removeFn
	}
	if err := b.stream.raw.Control(f); err != nil {
		return plain(err)
	}
	return b.err
}

// Ring implements Bell.
func (b *hostBell) Ring() { _ = b.file.SetReadDeadline(longAgo) } // of a closed one nobody hears

// Close implements Bell.
func (b *hostBell) Close() { _ = b.file.Close() }
