package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/shm"
)

// The limit is the best that a plain program can get from one TCP connection: a thread with its own
// processor polls the socket, writes all waiting messages with one system call, and reads all available
// data with another.

const (
	// limitMark, in the third word of a header, requests this mode for a connection.
	limitMark = 0x746d696c
	// limitCPU is the offset in a header of an end's processor number plus 1. Ends that share a processor
	// yield after each poll.
	limitCPU = 12
	// limitLooks is the number of polls in vain before a yield to other threads. limitSpin is how long
	// the answering end polls before it sleeps.
	limitLooks = 256
	limitSpin  = 200 * time.Microsecond
	// limitMemory is the most that is read at once.
	limitMemory = 1<<20 + headSize
)

// spinner is an end of such a connection: a non-blocking socket.
type spinner struct {
	fd     int
	shares bool // the processor, with the other end
	sleeps bool // when it polls in vain for long
	looks  int
	since  time.Time
}

// transfer makes a read or write. It returns 0 if that would block.
func (s *spinner) transfer(call uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return 0, nil
		case errno != 0:
			return 0, errno
		case n == 0 && call == unix.SYS_READ:
			return 0, io.EOF
		}
		s.looks = 0
		return int(n), nil
	}
}

// idle is called after a poll in vain.
func (s *spinner) idle(writes bool) error {
	s.looks++
	if s.looks == 1 && s.sleeps {
		s.since = time.Now()
	}
	if s.looks%limitLooks != 0 {
		if s.shares {
			shm.Yield()
		}
		return nil
	}
	shm.Yield()
	if !s.sleeps || time.Since(s.since) < limitSpin {
		return nil
	}
	p := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	if writes {
		p[0].Events |= unix.POLLOUT
	}
	s.looks = 0
	if _, err := unix.Poll(p[:], -1); err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("poll", err)
	}
	return nil
}

// chooseCPU returns the first or the last processor that this thread may use.
func chooseCPU(last bool) (chosen int, all unix.CPUSet, err error) {
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return 0, all, os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu, seen := 0, 0; seen < all.Count(); cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		seen++
		if chosen = cpu; !last {
			break
		}
	}
	return chosen, all, nil
}

// confineThread locks this goroutine to a thread and the thread to one processor, until restore is
// called.
func confineThread(last bool) (cpu int, restore func(), err error) {
	runtime.LockOSThread()
	cpu, all, err := chooseCPU(last)
	if err == nil {
		var one unix.CPUSet
		one.Set(cpu)
		err = os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &one))
	}
	if err != nil {
		runtime.UnlockOSThread()
		return 0, nil, err
	}
	return cpu, func() {
		if unix.SchedSetaffinity(0, &all) == nil {
			runtime.UnlockOSThread()
		} // otherwise the thread ends with its goroutine
	}, nil
}

// limitAnswer answers on a connection until it ends. The caller has read only the header with the mark.
// While limitAnswer polls the socket, the connection cannot be closed. Shut it down to end it.
func limitAnswer(c *net.TCPConn, head []byte) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	cpu, restore, err := confineThread(true)
	if err != nil {
		return
	}
	defer restore()
	shares := binary.LittleEndian.Uint32(head[limitCPU:]) == uint32(cpu+1)
	binary.LittleEndian.PutUint32(head[limitCPU:], uint32(cpu+1))
	if _, err := c.Write(head); err != nil { // confirms the mode
		return
	}
	_ = raw.Control(func(fd uintptr) {
		a := answerer{spinner: spinner{fd: int(fd), shares: shares, sleeps: true}, in: make([]byte, limitMemory), out: written(limitMemory)}
		_ = a.run() // ends with the connection
	})
}

// answerer reads parts of messages and counts the answers that are due.
type answerer struct {
	spinner
	in, out     []byte
	headerBytes int // bytes of a header at the beginning of in
	payloadLeft int // bytes of a payload still to be read
	answer      int // bytes of its answer
	answersDue  int
}

func (a *answerer) run() error {
	for {
		n, err := a.transfer(unix.SYS_READ, a.in[a.headerBytes:])
		if err != nil {
			return err
		}
		if err := a.process(n); err != nil {
			return err
		}
		m := 0
		if a.answersDue > 0 {
			if m, err = a.transfer(unix.SYS_WRITE, a.out[:min(a.answersDue, len(a.out))]); err != nil {
				return err
			}
			a.answersDue -= m
		}
		if n == 0 && m == 0 {
			if err := a.idle(a.answersDue > 0); err != nil {
				return err
			}
		}
	}
}

// process processes n bytes that were read after those already present.
func (a *answerer) process(n int) error {
	rest := a.in[:a.headerBytes+n]
	for len(rest) > 0 {
		if a.payloadLeft > 0 {
			n := min(a.payloadLeft, len(rest))
			a.payloadLeft -= n
			rest = rest[n:]
			if a.payloadLeft == 0 {
				a.answersDue += a.answer
			}
			continue
		}
		if len(rest) < headSize {
			break
		}
		in, out := int(binary.LittleEndian.Uint32(rest)), int(binary.LittleEndian.Uint32(rest[4:]))
		if in > 1<<20 || out > 1<<20 {
			return fmt.Errorf("a message of %d bytes, with an answer of %d", in, out)
		}
		a.payloadLeft, a.answer = in, headSize+out
		rest = rest[headSize:]
		if in == 0 {
			a.answersDue += a.answer
		}
	}
	a.headerBytes = copy(a.in, rest)
	return nil
}

// limitClient measures on one such connection.
type limitClient struct {
	conn *net.TCPConn
	raw  syscall.RawConn
	// shares reports whether both ends have the same processor.
	shares bool
}

func dialLimit(ctx context.Context, addr string) (*limitClient, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := conn.(*net.TCPConn)
	l := &limitClient{conn: c}
	cpu, _, err := chooseCPU(false)
	head := make([]byte, headSize)
	binary.LittleEndian.PutUint32(head[8:], limitMark)
	binary.LittleEndian.PutUint32(head[limitCPU:], uint32(cpu+1))
	if err == nil {
		_, err = c.Write(head)
	}
	if err == nil {
		_, err = io.ReadFull(c, head)
	}
	l.shares = binary.LittleEndian.Uint32(head[limitCPU:]) == uint32(cpu+1)
	if err == nil {
		l.raw, err = c.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connection that spins: %w", err), c.Close())
	}
	return l, nil
}

// exchange is like that of floorClient.
func (l *limitClient) exchange(n, in, out, window int) (took time.Duration, err error) {
	each := headSize + in
	messages := written(window * each)
	for k := range window {
		clear(messages[k*each:][:headSize])
		binary.LittleEndian.PutUint32(messages[k*each:], uint32(in))
		binary.LittleEndian.PutUint32(messages[k*each+4:], uint32(out))
	}
	answers := written(window * (headSize + out))
	_, restore, err := confineThread(false)
	if err != nil {
		return 0, err
	}
	defer restore()
	controlErr := l.raw.Control(func(fd uintptr) {
		start := time.Now()
		err = spinExchange(&spinner{fd: int(fd), shares: l.shares}, n, each, headSize+out, messages, answers)
		took = time.Since(start)
	})
	return took, errors.Join(err, controlErr)
}

// spinExchange sends n messages of each bytes and reads an answer of answer bytes for each. messages and
// answers have room for as many as may be under way.
func spinExchange(s *spinner, n, each, answer int, messages, answers []byte) error {
	window := len(messages) / each
	total, sent, received := n*each, 0, 0
	for received < n*answer {
		allowed := min(total, (received/answer+window)*each)
		wrote := 0
		if sent < allowed {
			at := sent % len(messages)
			m, err := s.transfer(unix.SYS_WRITE, messages[at:min(len(messages), at+allowed-sent)])
			if err != nil {
				return os.NewSyscallError("write", err)
			}
			sent, wrote = sent+m, m
		}
		at := received % len(answers)
		m, err := s.transfer(unix.SYS_READ, answers[at:])
		if err != nil {
			return fmt.Errorf("answer %d of %d: %w", received/answer, n, err)
		}
		received += m
		if wrote == 0 && m == 0 {
			if err := s.idle(false); err != nil {
				return err
			}
		}
	}
	return nil
}
