package socklnd

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/limit"
)

// hostStream is a TCP socket. It reads and writes by the system calls readv and writev. It keeps their vectors,
// so that a message allocates nothing.
type hostStream struct {
	conn          *net.TCPConn
	raw           syscall.RawConn
	local, remote netip.AddrPort
	bell          atomic.Pointer[hostBell]

	waited bool // the last call of Read had to wait

	// Each direction has its own transfer. The functions are passed to RawConn; they are created once.
	read, write                 transfer
	readFn, writeFn, writableFn func(fd uintptr) bool
	// tryReadFn reads without waiting. quietFn and loudFn implement Quiet.
	tryReadFn, quietFn, loudFn func(fd uintptr)
}

// transfer is the arguments and the result of one readv or writev call.
type transfer struct {
	vector []unix.Iovec
	length int // of the vector's buffers, in bytes
	n      int
	errno  syscall.Errno
}

// maxVector is the maximum number of pieces that the kernel accepts (IOV_MAX).
const maxVector = 1024

func newHostStream(c *net.TCPConn) (*hostStream, error) {
	raw, err := c.SyscallConn()
	if err == nil {
		err = control(raw, limit.CheckDescriptor)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	s := &hostStream{
		conn:   c,
		raw:    raw,
		local:  unmapped(c.LocalAddr()),
		remote: unmapped(c.RemoteAddr()),
	}
	s.readFn = func(fd uintptr) bool {
		s.read.do(unix.SYS_READV, fd)
		if s.read.errno == unix.EAGAIN {
			s.waited = true
			return false
		}
		return true
	}
	s.writeFn = func(fd uintptr) bool {
		s.write.do(unix.SYS_WRITEV, fd)
		return true
	}
	s.writableFn = writable
	s.tryReadFn = func(fd uintptr) { s.read.do(unix.SYS_READV, fd) }
	s.quietFn = func(fd uintptr) { wakeFrom(fd, quietBytes) }
	s.loudFn = func(fd uintptr) { wakeFrom(fd, 1) }
	return s, nil
}

// writable reports whether the socket accepts bytes. AwaitWritable needs this check because Go's poller forgets
// earlier events when a wait begins.
func writable(fd uintptr) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(p[:], 0)
	return n > 0 || err != nil && err != unix.EINTR
}

// quietBytes is how many available bytes wake goroutines that sleep on a quiet stream. It must not be more than
// half of the receive buffer; otherwise the kernel would enlarge the buffer.
const quietBytes = 32 << 10

// wakeFrom sets the number of available bytes from which the socket wakes sleeping goroutines. If that many are
// already available, it wakes them. It requires Linux 4.18. With older kernels, busy polling must stay off.
func wakeFrom(fd uintptr, bytes int) {
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
}

func unmapped(a net.Addr) netip.AddrPort {
	p := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// set makes the vector refer to the bytes of bufs, up to maxVector buffers.
func (t *transfer) set(bufs [][]byte) {
	t.vector, t.length = t.vector[:0], 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if len(t.vector) == maxVector {
			break
		}
		v := unix.Iovec{Base: unsafe.SliceData(b)}
		v.SetLen(len(b))
		t.vector = append(t.vector, v)
		t.length += len(b)
	}
}

// shortLength is the largest length of a transfer in bytes of which Go's scheduler is not told. It is copied within
// some microseconds. If an idle process tells the scheduler of a system call, that wakes a thread to watch it,
// which costs more than the call.
const shortLength = 64 << 10

// do makes the system call. It does not block, because the socket is non-blocking.
func (t *transfer) do(call, fd uintptr) {
	for {
		var n uintptr
		var errno syscall.Errno
		if t.length <= shortLength {
			n, _, errno = unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.vector))), uintptr(len(t.vector)))
		} else {
			n, _, errno = unix.Syscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.vector))), uintptr(len(t.vector)))
		}
		if errno == unix.EINTR {
			continue
		}
		t.n, t.errno = int(n), errno
		return
	}
}

// done clears the vector's pointers after a call, so that they do not keep memory alive.
func (t *transfer) done() { clear(t.vector) }

func (s *hostStream) LocalAddr() netip.AddrPort  { return s.local }
func (s *hostStream) RemoteAddr() netip.AddrPort { return s.remote }

func (s *hostStream) Read(bufs [][]byte) (int, error) {
	s.waited = false
	s.read.set(bufs)
	return s.hasRead(s.raw.Read(s.readFn))
}

// Waited implements Pollable.
func (s *hostStream) Waited() bool { return s.waited }

// TryRead implements Pollable.
func (s *hostStream) TryRead(bufs [][]byte) (int, error) {
	s.read.set(bufs)
	return s.hasRead(s.raw.Control(s.tryReadFn))
}

// hasRead returns the result of a read to the caller of Read or TryRead. err is the error of the RawConn call.
func (s *hostStream) hasRead(err error) (int, error) {
	s.read.done()
	switch {
	case err != nil:
		return 0, plain(err)
	case s.read.errno == unix.EAGAIN:
		return 0, nil
	case s.read.errno != 0:
		return 0, os.NewSyscallError("readv", s.read.errno)
	case s.read.n == 0:
		return 0, io.EOF
	}
	return s.read.n, nil
}

func (s *hostStream) TryWrite(bufs [][]byte) (int, error) {
	s.write.set(bufs)
	err := s.raw.Write(s.writeFn)
	s.write.done()
	switch {
	case err != nil:
		return 0, plain(err)
	case s.write.errno == unix.EAGAIN:
		return 0, nil
	case s.write.errno != 0:
		return 0, os.NewSyscallError("writev", s.write.errno)
	}
	return s.write.n, nil
}

func (s *hostStream) AwaitWritable() error { return plain(s.raw.Write(s.writableFn)) }

// Quiet implements Pollable.
func (s *hostStream) Quiet(on bool) {
	f := s.loudFn
	if on {
		f = s.quietFn
	}
	_ = s.raw.Control(f) // an error means that the stream has ended
}

// Ended implements Stream.
func (s *hostStream) Ended() error { return plain(control(s.raw, ended)) }

func ended(fd int) error {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if _, err := unix.Poll(p[:], 0); err != nil {
		return nil // interrupted or out of memory: the next check will show whether the stream has ended
	}
	if p[0].Revents&unix.POLLERR != 0 {
		errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && errno != 0 {
			return os.NewSyscallError("poll", syscall.Errno(errno))
		}
		// Another call has already returned the error, but poll still shows that the stream has ended.
	}
	if p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0 {
		return io.EOF
	}
	return nil
}

// plain returns the error inside a net.OpError, or err itself if it is no net.OpError.
func plain(err error) error {
	if err == nil {
		return nil // without the allocation that errors.As needs
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (s *hostStream) SetReadDeadline(t time.Time) error  { return s.conn.SetReadDeadline(t) }
func (s *hostStream) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

func (s *hostStream) Configure(o StreamOptions) error {
	return control(s.raw, func(fd int) error {
		ipv4 := s.remote.Addr().Is4()
		if o.SendBuffer == 0 && onLoopback(fd, ipv4) && maxSendBuffer() >= loopbackBuffer {
			o.SendBuffer = loopbackBuffer
		}
		return configure(fd, o, ipv4)
	})
}

const (
	// loopbackBuffer is the size in bytes of the send buffer of connections within the host, unless it is configured.
	// The size that the kernel would choose is larger than the processor's cache, and so the receiver would read from
	// main memory.
	loopbackBuffer = 512 << 10
	// loopbackMTU is the MTU of the loopback device in bytes, as the kernel reports it for IPv4; for IPv6 it reports one
	// more. Devices that lead to other hosts have smaller ones.
	loopbackMTU = 65535
)

// maxSendBuffer returns the size in bytes to which the kernel limits send buffers that programs choose, or 0 if that is
// not known. With a smaller buffer than loopbackBuffer, senders would wait more often than with the kernel's choice.
var maxSendBuffer = sync.OnceValue(func() int {
	b, err := os.ReadFile("/proc/sys/net/core/wmem_max")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
})

// onLoopback reports whether the connected socket fd sends over the loopback device, as it does if its peer has any of
// the host's addresses.
func onLoopback(fd int, ipv4 bool) bool {
	level, name := unix.IPPROTO_IP, unix.IP_MTU
	if !ipv4 {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu, err := unix.GetsockoptInt(fd, level, name)
	return err == nil && mtu >= loopbackMTU
}

// configure sets the socket options of a connection (socklnd 16).
func configure(fd int, o StreamOptions, ipv4 bool) error {
	type option struct{ level, name, value int }
	keepalive := o.KeepaliveIdle > 0 && o.KeepaliveInterval > 0 && o.KeepaliveCount > 0
	options := []option{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, boolInt(o.NoDelay)},
		{unix.IPPROTO_TCP, unix.TCP_LINGER2, -1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, boolInt(keepalive)}, // package net enables it for accepted sockets
	}
	if o.SendBuffer > 0 {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer})
	}
	if o.ReceiveBuffer > 0 {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_RCVBUF, o.ReceiveBuffer})
	}
	if o.QuickAck {
		options = append(options, option{unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1})
	}
	if keepalive {
		options = append(options,
			option{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(o.KeepaliveIdle)},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, seconds(o.KeepaliveInterval)},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, o.KeepaliveCount})
	}
	if o.TOS >= 0 {
		// A kernel node sets the TOS only if TCP keepalive is on. We set it whenever it is configured.
		if ipv4 {
			options = append(options, option{unix.IPPROTO_IP, unix.IP_TOS, o.TOS})
		} else {
			options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, o.TOS})
		}
	}
	for _, x := range options {
		if err := unix.SetsockoptInt(fd, x.level, x.name, x.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func (s *hostStream) Unacked() int {
	n := 0
	_ = control(s.raw, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		return err
	})
	return n
}

// probesLost is the number of unanswered TCP probes in a row after which Trying returns true. TCP probes a peer
// that is idle or has a closed window.
const probesLost = 2

// Trying implements Stream.
func (s *hostStream) Trying() (trying bool, silent time.Duration) {
	_ = control(s.raw, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return err // the connection has ended; the reader or the writer notices that
		}
		trying = info.Unacked > 0 && info.Retransmits > 0 || info.Probes >= probesLost
		silent = time.Duration(info.Last_ack_recv) * time.Millisecond
		return nil
	})
	return trying, silent
}

func (s *hostStream) Close() error {
	err := s.conn.Close()
	if b := s.bell.Load(); b != nil {
		b.Ring()
	}
	return err
}
