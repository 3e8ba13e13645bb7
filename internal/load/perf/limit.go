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

	"github.com/lnetd/lnetd/memory/polling"
)

// The limit is the best that a plain program can get from one TCP connection: a thread with its own
// processor polls the socket, writes all waiting messages with one system call, and reads all available
// data with another.

const (
	// limitMark, in the third 32-bit word of a header, makes a connection of the plain server one of this
	// kind.
	limitMark = 0x746d696c
	// limitCPU is the offset in that header of the processor that an end uses, plus 1. Two ends on the same
	// processor yield after each poll.
	limitCPU = 12
	// limitPolls is the number of polls without data after which a thread yields. limitSpin is how long the
	// passive end polls before it sleeps.
	limitPolls = 256
	limitSpin  = 200 * time.Microsecond
	// limitMemory is the maximum number of bytes per read.
	limitMemory = 1<<20 + headSize
)

// spinner is one end of a connection: a non-blocking socket that is polled.
type spinner struct {
	fd        int
	sharesCPU bool // both ends use the same processor
	maySleep  bool // it sleeps after limitSpin without data
	polls     int
	since     time.Time
}

// transfer makes one read or write of b, and returns the number of bytes. It returns 0 if the call would
// block, and io.EOF at the end of the connection.
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
		s.polls = 0
		return int(n), nil
	}
}

// idle is called after a poll in which no data moved. It yields or sleeps if there were many such polls.
// A sleep ends when the socket is readable or, with writes, writable.
func (s *spinner) idle(writes bool) error {
	s.polls++
	if s.polls == 1 && s.maySleep {
		s.since = time.Now()
	}
	if s.polls%limitPolls != 0 {
		if s.sharesCPU {
			polling.Yield()
		}
		return nil
	}
	polling.Yield()
	if !s.maySleep || time.Since(s.since) < limitSpin {
		return nil
	}
	p := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	if writes {
		p[0].Events |= unix.POLLOUT
	}
	s.polls = 0
	if _, err := unix.Poll(p[:], -1); err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("poll", err)
	}
	return nil
}

// chooseCPU returns the first or the last processor that this thread may use, and the set of all
// processors that it may use.
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

// restrictThread locks this goroutine to a thread, and the thread to the first or last processor that it
// may use. restore undoes both.
func restrictThread(last bool) (cpu int, restore func(), err error) {
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
		} // otherwise the goroutine stays locked, and the thread ends with it
	}, nil
}

// serveLimitConn answers messages on a connection until the connection ends. head is the header with
// limitMark, after which the caller must have read nothing. While serveLimitConn runs, c.Close blocks;
// call c.CloseRead to make it return.
func serveLimitConn(c *net.TCPConn, head []byte) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	cpu, restore, err := restrictThread(true)
	if err != nil {
		return
	}
	defer restore()
	shares := binary.LittleEndian.Uint32(head[limitCPU:]) == uint32(cpu+1)
	binary.LittleEndian.PutUint32(head[limitCPU:], uint32(cpu+1))
	if _, err := c.Write(head); err != nil { // confirms limitMark
		return
	}
	_ = raw.Control(func(fd uintptr) {
		a := limitServer{spinner: spinner{fd: int(fd), sharesCPU: shares, maySleep: true}, in: make([]byte, limitMemory), out: writtenMemory(limitMemory)}
		_ = a.run() // returns when the connection ends
	})
}

// limitServer is the passive end of a connection. It reads messages in parts, and writes all answers
// that are due with one call.
type limitServer struct {
	spinner
	in, out     []byte
	headerBytes int // bytes of an incomplete header at the beginning of in
	payloadLeft int // bytes of the current payload that were not read yet
	answer      int // bytes of the answer to the current message
	answersDue  int
}

func (a *limitServer) run() error {
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

// process processes the first headerBytes+n bytes of in, of which n were just read. It adds complete
// messages to answersDue.
func (a *limitServer) process(n int) error {
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
			return fmt.Errorf("the header announces a message of %d bytes and an answer of %d, but at most %d are possible", in, out, 1<<20)
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

// limitClient is the active end of a connection.
type limitClient struct {
	conn *net.TCPConn
	raw  syscall.RawConn
	// sharesCPU reports whether both ends use the same processor.
	sharesCPU bool
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
	l.sharesCPU = binary.LittleEndian.Uint32(head[limitCPU:]) == uint32(cpu+1)
	if err == nil {
		l.raw, err = c.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connection that is polled: %w", err), c.Close())
	}
	return l, nil
}

// exchange does the same as floorClient.exchange.
func (l *limitClient) exchange(n, in, out, window int, laps *laps) (took time.Duration, err error) {
	each := headSize + in
	messages := writtenMemory(window * each)
	for k := range window {
		clear(messages[k*each:][:headSize])
		binary.LittleEndian.PutUint32(messages[k*each:], uint32(in))
		binary.LittleEndian.PutUint32(messages[k*each+4:], uint32(out))
	}
	answers := writtenMemory(window * (headSize + out))
	_, restore, err := restrictThread(false)
	if err != nil {
		return 0, err
	}
	defer restore()
	controlErr := l.raw.Control(func(fd uintptr) {
		laps.start()
		start := time.Now()
		err = spinExchange(&spinner{fd: int(fd), sharesCPU: l.sharesCPU}, n, each, headSize+out, messages, answers, laps)
		took = time.Since(start)
	})
	return took, errors.Join(err, controlErr)
}

// spinExchange sends n messages of each bytes, and reads an answer of answer bytes to each message. The
// size of messages and of answers determines how many messages are in flight. If it is one, spinExchange records
// a lap for each answer.
func spinExchange(s *spinner, n, each, answer int, messages, answers []byte, l *laps) error {
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
		if m > 0 && window == 1 && received%answer == 0 {
			l.add()
		}
		if wrote == 0 && m == 0 {
			if err := s.idle(false); err != nil {
				return err
			}
		}
	}
	return nil
}
