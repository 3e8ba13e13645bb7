package shm

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bell is how a producer in one process wakes a consumer in another that sleeps, and
// leaves one alone that does not (transport 9.6). It is a flag in shared memory, and a
// descriptor that tokens go through, on which Go's poller waits. The consumer (1) lies
// down: flag = 1; (2) looks whether there is anything: load of the tail; (3) sleeps if
// not: reads a token; (4) gets up: flag = 0. A producer (1) writes entries; (2) stores the
// tail; (3) claims the sleeper: load of the flag, and if that is not 0, exchange with 0,
// which one producer alone gets something else from; (4) writes a token if he did.
//
// Each side stores before it loads what the other one stores, all four being sequentially
// consistent (seq_cst to C): there is one order of them, in which either the consumer's
// store comes before the producer's load, who then finds the sleeper, or the producer's
// store before the consumer's load, who then finds the entry. Acquire and release would
// not do: they let a load pass a store of something else.
//
// fences: Both stores are Swaps. Go compiles an atomic store to an instruction that orders it
// before the loads that follow (XCHG on amd64), but not with the race detector, which makes a
// plain MOV of it for memory that Go has not allocated, such as these mappings. The processor may then
// load before it stores, and the wake-up is lost. A Swap orders them in every build.
//
// A token that comes late, to a consumer that has found the entry by himself, wakes him
// from his next sleep, and he looks again. Package completion has the same within a
// process.
//
// Two kinds of descriptors carry tokens, since flags such as O_NONBLOCK belong to what is
// open and not to who holds it, and a client may do to them what it wants. Submissions
// have an eventfd, of which lnetd only reads, and says each time that it will not wait.
// Completions have a pair of sockets: what lnetd writes to is its own end, where no flag
// of the client's, and nothing that it leaves unread, makes lnetd wait. A write to a full
// eventfd has no such promise, and one to a pipe waits for a reader whose memory is slow.

// sleeper is the consumer's side. One goroutine at a time is anywhere between setAlarm
// and getUp.
type sleeper struct {
	flag *atomic.Uint32 // in shared memory
	// woken is set by shout until the consumer gets up, shut when the end is shut.
	woken, shut atomic.Bool

	file  *os.File
	raw   syscall.RawConn
	read  func(fd uintptr) bool // is take, or takeEvent
	token [64]byte
	into  unix.Iovec // the token, for takeEvent
	got   int
	errno syscall.Errno
	// alarm is the deadline that file has, if known: zero is none.
	alarm time.Time
	known bool

	sleeps, reads counter
}

// listen makes a sleeper of a socket or eventfd, open without blocking, which it owns from
// then on. EOPNOTSUPP: the kernel is older than 5.8, and cannot do with an eventfd what
// lnetd needs.
func (s *sleeper) listen(fd int, flag *atomic.Uint32, eventfd bool) (err error) {
	s.flag, s.file, s.read = flag, os.NewFile(uintptr(fd), "bell"), s.take
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.raw, err = s.file.SyscallConn(); err != nil || !eventfd {
		return err
	}
	s.read = s.takeEvent
	s.into.Base = &s.token[0]
	s.into.SetLen(8)
	if s.takeEvent(uintptr(fd)) {
		return os.NewSyscallError("preadv2 of an eventfd", s.errno)
	}
	return nil
}

// lieDown says that the consumer is going to sleep unless he finds something.
func (s *sleeper) lieDown() {
	s.sleeps.add(1)
	s.flag.Swap(1) // Wait loads the tail behind it (see fences)
}

// getUp says that the consumer is up, and has heard who shouted.
func (s *sleeper) getUp() {
	s.flag.Store(0)
	s.woken.Store(false)
}

// setAlarm has sleep end at until, if it is not zero. It is made before lieDown: a shout
// that it undoes is seen by who looks at woken then.
func (s *sleeper) setAlarm(until time.Time) {
	if s.known && s.alarm.Equal(until) {
		return
	}
	s.alarm, s.known = until, true
	_ = s.file.SetReadDeadline(until) // fails if it was closed, as sleep will
}

// sleep blocks until there is a token, until, or a shout. It tells whether it was the
// second.
func (s *sleeper) sleep(until time.Time) (over bool, err error) {
	err = s.raw.Read(s.read)
	switch {
	case s.shut.Load():
		return false, ErrShut
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Somebody shouted, who may be heard by now, or it is time.
		s.known = false
		return !until.IsZero() && !time.Now().Before(until), nil
	case err != nil:
		return false, err
	case s.errno != 0:
		return false, os.NewSyscallError("read of a bell", s.errno)
	case s.got == 0:
		return false, ErrGone
	}
	s.reads.add(1)
	return false, nil
}

// take takes the tokens out of a socket, and tells whether there is no need to wait.
func (s *sleeper) take(fd uintptr) bool {
	for {
		n, _, e := unix.Syscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&s.token)), uintptr(len(s.token)), unix.MSG_DONTWAIT, 0, 0)
		if e != unix.EINTR {
			s.got, s.errno = int(n), e
			return e != unix.EAGAIN
		}
	}
}

// takeEvent does the same with an eventfd, whether it is set to block or not.
func (s *sleeper) takeEvent(fd uintptr) bool {
	for {
		n, _, e := unix.Syscall6(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&s.into)), 1, ^uintptr(0), ^uintptr(0), unix.RWF_NOWAIT)
		if e != unix.EINTR {
			s.got, s.errno = int(n), e
			return e != unix.EAGAIN
		}
	}
}

// shout wakes him though there be nothing.
func (s *sleeper) shout() {
	s.woken.Store(true)
	_ = s.file.SetReadDeadline(time.Unix(1, 0)) // fails if it was closed, which wakes him too
}

// close ends the sleep that is under way, and all that follow.
func (s *sleeper) close() {
	if !s.shut.Swap(true) {
		_ = s.file.Close()
	}
}

// ringer is the producer's side. Any goroutine may use it.
type ringer struct {
	flag *atomic.Uint32 // in shared memory
	to   descriptor
	give func(fd uintptr) syscall.Errno // is giveEvent or giveSocket
	rung counter
	late atomic.Bool // a token that the kernel had no memory for will follow
}

// claim tells whether the caller has to wake the consumer, and counts it if so: when wake
// comes the memory may be gone. One that is up costs a load.
func (r *ringer) claim() bool {
	if r.flag.Load() == 0 || r.flag.Swap(0) == 0 {
		return false
	}
	r.rung.add(1)
	return true
}

// token is one, and what adds one to an eventfd.
var token = uint64(1)

// wakeRetry is how long to wait before a token is written again for which the kernel had no
// memory.
const wakeRetry = time.Millisecond

// wake lets the consumer return from sleep. It does not block, and does not touch shared
// memory. A consumer that is gone needs no token, nor does one that has left so many unread
// that no more fit (EAGAIN). If the kernel has no memory for it, wake writes it a little later:
// the flag has been claimed, so no other producer will.
func (r *ringer) wake() {
	if !r.to.use() {
		return
	}
	defer r.to.done()
	e := r.give(uintptr(r.to.fd))
	for e == unix.EINTR {
		e = r.give(uintptr(r.to.fd))
	}
	if (e == unix.ENOMEM || e == unix.ENOBUFS) && !r.late.Swap(true) {
		time.AfterFunc(wakeRetry, func() {
			r.late.Store(false)
			r.wake()
		})
	}
}

// giveEvent writes a token to an eventfd.
func giveEvent(fd uintptr) syscall.Errno {
	_, _, e := unix.Syscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&token)), 8)
	return e
}

// giveSocket writes a token to a socket.
func giveSocket(fd uintptr) syscall.Errno {
	_, _, e := unix.Syscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&token)), 1, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return e
}

// ring makes a ringer of a descriptor, which it owns from then on.
func (r *ringer) ring(fd int, flag *atomic.Uint32, give func(fd uintptr) syscall.Errno) {
	r.to.fd, r.flag, r.give = fd, flag, give
}
