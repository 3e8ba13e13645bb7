package shared

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bell wakes a sleeping consumer in another process, and costs producers little while the consumer is awake
// (transport 9.6). It consists of a flag in shared memory and a file descriptor through which tokens are
// sent. A token wakes the consumer; Go's poller waits for it on the descriptor. A consumer may also sleep on the
// flag itself, with a futex, if both sides support that.
//
// Before the consumer sleeps, it (1) announces this: flag = 1, or 2 if it is going to sleep on the flag; (2)
// checks for work: it loads the ring's tail; and (3) if it has found none, sleeps until it reads a token, or
// until the flag is not 2. When it continues, it (4) clears the flag: flag = 0.
//
// A producer (1) writes entries; (2) stores the tail; (3) claims the consumer: it loads the flag and, if that
// is not 0, exchanges it with 0, so that only one producer gets a nonzero value; and (4) wakes a thread that
// sleeps on the flag if it got 2, and writes a token if it got any other nonzero value.
//
// Each side stores before it loads what the other side stores. All four accesses are sequentially consistent
// (seq_cst in C), so they have one total order. If the consumer's store precedes the producer's load, the
// producer sees the flag. Otherwise the producer's store precedes the consumer's load, and the consumer sees
// the entry. Acquire and release would not suffice, because they allow a load to overtake a store to another
// address.
//
// fences: Both stores are Swaps. Go compiles an atomic store to an instruction that orders it before later
// loads (XCHG on amd64). But with the race detector it is a plain MOV for memory that Go has not allocated,
// such as these mappings. The processor may then load before it stores, and the wake-up is lost. A Swap is
// ordered in every build.
//
// A token may arrive after the consumer has already found the entry. The consumer's next sleep then ends
// immediately, and the consumer checks again. Package completion uses the same protocol within a process.
//
// Go's scheduler is not told of the system calls that read and write tokens (RawSyscall), because they do not
// block. If an idle process tells the scheduler of a system call, that wakes a thread to watch it, which costs more
// than the call.
//
// Two kinds of descriptors carry tokens. Flags such as O_NONBLOCK belong to the open file, not to the
// process, so a client can change them at any time. Submissions use an eventfd. lnetd only reads it, and
// requests with each read not to block. Completions use a pair of sockets. lnetd writes to its own end, so
// neither the client's flags nor unread tokens can block lnetd. A write to a full eventfd has no such
// guarantee, and a write to a pipe can wait for a reader that faults on its memory.

// sleeper is the consumer's side of a bell. Only one goroutine at a time may be between setDeadline and
// finishSleep.
type sleeper struct {
	flag *atomic.Uint32 // flag of the bell, in shared memory
	// woken is set by forceWake and cleared by finishSleep. shut is set by close.
	woken, shut atomic.Bool
	// onFlag means that the consumer sleeps on the flag, or is about to. Only then may forceWake and close
	// access the flag, because the memory may be unmapped otherwise.
	onFlag atomic.Bool

	file  *os.File
	raw   syscall.RawConn
	read  func(fd uintptr) bool // readSocket or readEventfd
	token [64]byte
	iovec unix.Iovec // describes token for readEventfd
	nread int        // result of the last read, with errno
	errno syscall.Errno
	// deadline is the deadline that is set in file, if deadlineKnown is set. Zero means no deadline.
	deadline      time.Time
	deadlineKnown bool

	sleeps, reads counter
}

// listen initializes s with fd, a non-blocking socket or an eventfd, and takes ownership of it. It returns
// EOPNOTSUPP if the kernel is older than 5.8, because such a kernel cannot read an eventfd with RWF_NOWAIT.
func (s *sleeper) listen(fd int, flag *atomic.Uint32, eventfd bool) (err error) {
	s.flag, s.file, s.read = flag, os.NewFile(uintptr(fd), "bell"), s.readSocket
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.raw, err = s.file.SyscallConn(); err != nil || !eventfd {
		return err
	}
	s.read = s.readEventfd
	s.iovec.Base = &s.token[0]
	s.iovec.SetLen(8)
	if s.readEventfd(uintptr(fd)) {
		return os.NewSyscallError("preadv2 of an eventfd", s.errno)
	}
	return nil
}

// prepareSleep announces that the consumer will sleep unless it finds work.
func (s *sleeper) prepareSleep() {
	s.sleeps.add(1)
	s.flag.Swap(uint32(onDescriptor)) // Wait loads the tail after this store (see fences)
}

// finishSleep marks the consumer as awake and clears woken.
func (s *sleeper) finishSleep() {
	s.flag.Store(0)
	s.woken.Store(false)
}

// prepareSleepOnFlag is like prepareSleep, for a sleep on the flag.
func (s *sleeper) prepareSleepOnFlag() {
	s.sleeps.add(1)
	s.onFlag.Store(true)
	s.flag.Swap(uint32(onWord)) // Wait loads the tail after this store (see fences)
}

// finishSleepOnFlag marks the consumer as awake. It leaves woken as it is.
func (s *sleeper) finishSleepOnFlag() {
	s.flag.Store(0)
	s.onFlag.Store(false)
}

// interrupted reports whether forceWake or close has been called.
func (s *sleeper) interrupted() bool { return s.woken.Load() || s.shut.Load() }

// wakeOnFlag wakes the consumer if it sleeps on the flag, or is about to. The caller has set woken or shut.
func (s *sleeper) wakeOnFlag() {
	if s.onFlag.Load() && s.flag.Swap(0) == uint32(onWord) {
		wakeFutex(s.flag)
	}
}

// setDeadline makes sleep end at the given time, unless that is zero. The caller must call it before
// prepareSleep and check woken after it: setDeadline may overwrite the deadline by which a concurrent
// forceWake ends the sleep, but woken is then still set.
func (s *sleeper) setDeadline(until time.Time) {
	if s.deadlineKnown && s.deadline.Equal(until) {
		return
	}
	s.deadline, s.deadlineKnown = until, true
	_ = s.file.SetReadDeadline(until) // fails only after close, and sleep then fails as well
}

// sleep blocks until a token arrives, until the time set by setDeadline, or until forceWake is called. over
// reports whether the time until has passed. The error is ErrShut after close, and ErrGone if the other side
// has closed its end.
func (s *sleeper) sleep(until time.Time) (over bool, err error) {
	err = s.raw.Read(s.read)
	switch {
	case s.shut.Load():
		return false, ErrShut
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Either forceWake has set the deadline, perhaps for an earlier sleep, or the time has passed.
		s.deadlineKnown = false
		return !until.IsZero() && !time.Now().Before(until), nil
	case err != nil:
		return false, err
	case s.errno != 0:
		return false, os.NewSyscallError("read of a bell", s.errno)
	case s.nread == 0:
		return false, ErrGone
	}
	s.reads.add(1)
	return false, nil
}

// readSocket reads tokens from a socket into s.token. If the socket is empty, it returns false, so that the
// poller waits.
func (s *sleeper) readSocket(fd uintptr) bool {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&s.token)), uintptr(len(s.token)), unix.MSG_DONTWAIT, 0, 0)
		if e != unix.EINTR {
			s.nread, s.errno = int(n), e
			return e != unix.EAGAIN
		}
	}
}

// readEventfd is like readSocket, but reads an eventfd. It does not block even if the eventfd is in blocking
// mode.
func (s *sleeper) readEventfd(fd uintptr) bool {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&s.iovec)), 1, ^uintptr(0), ^uintptr(0), unix.RWF_NOWAIT)
		if e != unix.EINTR {
			s.nread, s.errno = int(n), e
			return e != unix.EAGAIN
		}
	}
}

// forceWake wakes the consumer even if there is no work.
func (s *sleeper) forceWake() {
	s.woken.Store(true)
	s.wakeOnFlag()
	_ = s.file.SetReadDeadline(time.Unix(1, 0)) // fails only after close, which has ended the sleep
}

// close makes the current and all later calls of sleep return ErrShut. It may be called repeatedly.
func (s *sleeper) close() {
	if !s.shut.Swap(true) {
		s.wakeOnFlag()
		_ = s.file.Close()
	}
}

// waker is the producer's side of a bell. It is safe for concurrent use.
type waker struct {
	flag       *atomic.Uint32 // flag of the bell, in shared memory
	descriptor descriptor
	write      func(fd uintptr) syscall.Errno // writeEventfd or writeSocket
	wakeups    counter
	retrying   atomic.Bool // sendToken will be called again, because the kernel was out of memory
}

// A Wakeup is how a claimed consumer must be woken. The zero value means that it must not be woken.
type Wakeup uint32

// Values of a flag, and what they mean for its producer. A consumer that does not follow the protocol may write
// other values; it then gets a token.
const (
	onDescriptor Wakeup = 1 // the consumer sleeps until it reads a token
	onWord       Wakeup = 2 // the consumer sleeps on the flag
)

// claimSleeper returns how the caller must wake the consumer if that sleeps or is about to, and no other
// producer has claimed it. It counts the wake-up itself, because the memory of the counter may be gone when
// wake is called. It costs one load if the consumer is awake.
func (r *waker) claimSleeper() Wakeup {
	if r.flag.Load() == 0 {
		return 0
	}
	w := Wakeup(r.flag.Swap(0))
	if w != 0 {
		r.wakeups.add(1)
	}
	return w
}

// claimAnyway is like claimSleeper, but the consumer gets a token even if it is awake.
func (r *waker) claimAnyway() Wakeup {
	r.wakeups.add(1)
	return max(Wakeup(r.flag.Swap(0)), onDescriptor)
}

// wake wakes the consumer in the way that the claim has returned. It neither blocks nor accesses shared memory.
func (r *waker) wake(w Wakeup) {
	switch w {
	case 0:
	case onWord:
		wakeFutex(r.flag)
	default:
		r.sendToken()
	}
}

// token is the value written to an eventfd.
var token = uint64(1)

// wakeRetry is the delay before a token is written again after the kernel was out of memory.
const wakeRetry = time.Millisecond

// sendToken makes the consumer's sleep return. It neither blocks nor accesses shared memory. It ignores
// errors if the consumer is gone, or has so many unread tokens that no more fit (EAGAIN). If the kernel is
// out of memory, it tries again after wakeRetry, because the flag is already claimed and no other producer
// will write a token.
func (r *waker) sendToken() {
	if !r.descriptor.use() {
		return
	}
	defer r.descriptor.done()
	e := r.write(uintptr(r.descriptor.fd))
	for e == unix.EINTR {
		e = r.write(uintptr(r.descriptor.fd))
	}
	if (e == unix.ENOMEM || e == unix.ENOBUFS) && !r.retrying.Swap(true) {
		time.AfterFunc(wakeRetry, func() {
			r.retrying.Store(false)
			r.sendToken()
		})
	}
}

// writeEventfd writes a token to an eventfd.
func writeEventfd(fd uintptr) syscall.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&token)), 8)
	return e
}

// writeSocket writes a token to a socket.
func writeSocket(fd uintptr) syscall.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&token)), 1, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return e
}

// init initializes r with descriptor fd, of which it takes ownership, and with the function that writes
// tokens to it.
func (r *waker) init(fd int, flag *atomic.Uint32, give func(fd uintptr) syscall.Errno) {
	r.descriptor.fd, r.flag, r.write = fd, flag, give
}
