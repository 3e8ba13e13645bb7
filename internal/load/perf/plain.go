package perf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/memory/shared"
)

// The plain exchange is the fastest exchange between two processes through shared memory. The asking end
// writes a number and wakes the answering end with an eventfd; the answering end writes the same number
// back and wakes the asking end. Or both poll the numbers and never sleep.

// sharedBoard is the content of the shared memory. ping and pong are the numbers if the ends sleep,
// asked and answered if they poll. Each polled word is alone in its cache line.
type sharedBoard struct {
	ping, pong atomic.Uint32
	_          [lineSize - 8]byte
	asked      atomic.Uint32 // the latest number of the asking end
	_          [lineSize - 4]byte
	answered   atomic.Uint32 // the latest number that the answering end has answered
	_          [lineSize - 4]byte
	spinning   atomic.Uint32 // 1: the answering end polls asked
}

const (
	lineSize = 64
	// boardSize is the size of the shared memory: one page.
	boardSize = 4096
	// plainPolls is the number of polls after which an end yields to other threads.
	plainPolls = 256
)

// plain is one end of the plain exchange.
type plain struct {
	memory  *shared.Memory
	board   *sharedBoard
	in, out int // eventfds
}

// PlainFiles are the shared memory and the two eventfds of the answering end. The process of that end
// inherits them.
type PlainFiles struct {
	Board, Ask, Answer *os.File
}

// List returns the files in the order that InheritedPlainFiles expects.
func (f *PlainFiles) List() []*os.File { return []*os.File{f.Board, f.Ask, f.Answer} }

// InheritedPlainFiles returns the files of a process that was started with them in exec.Cmd.ExtraFiles.
func InheritedPlainFiles() PlainFiles {
	const first = 3
	return PlainFiles{os.NewFile(first, "board"), os.NewFile(first+1, "ask"), os.NewFile(first+2, "answer")}
}

// newPlain creates a plain exchange. It returns the asking end, and the files for the answering end.
func newPlain() (*plain, PlainFiles, error) {
	m, fd, err := shared.Create("plain", boardSize)
	if err != nil {
		return nil, PlainFiles{}, err
	}
	files := PlainFiles{Board: os.NewFile(uintptr(fd), "board")}
	p := &plain{memory: m, board: boardOf(m)}
	for _, e := range []struct {
		own   *int
		other **os.File
	}{{&p.out, &files.Ask}, {&p.in, &files.Answer}} {
		if *e.own, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			return nil, files, fmt.Errorf("eventfd: %w", err)
		}
		fd, err := unix.Dup(*e.own)
		if err != nil {
			return nil, files, err
		}
		*e.other = os.NewFile(uintptr(fd), "eventfd")
	}
	return p, files, nil
}

func boardOf(m *shared.Memory) *sharedBoard {
	return (*sharedBoard)(unsafe.Pointer(unsafe.SliceData(m.Bytes())))
}

// answerPlain runs the answering end. It returns when the asking end has closed the exchange, which it
// signals with the number 0.
func answerPlain(f PlainFiles) error {
	defer runtime.KeepAlive(&f) // otherwise the garbage collector could close the files
	fd, err := unix.Dup(int(f.Board.Fd()))
	if err != nil {
		return err
	}
	m, err := shared.Adopt(fd, boardSize)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	p := &plain{memory: m, board: boardOf(m), in: int(f.Ask.Fd()), out: int(f.Answer.Fd())}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	word := make([]byte, 8)
	for {
		if _, err := unix.Read(p.in, word); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return fmt.Errorf("eventfd: %w", err)
		}
		n := p.board.ping.Load()
		if n == 0 {
			return nil
		}
		p.board.pong.Store(n)
		if _, err := unix.Write(p.out, one[:]); err != nil {
			return fmt.Errorf("eventfd: %w", err)
		}
		for polls := 1; p.board.spinning.Load() == 1; polls++ {
			if n := p.board.asked.Load(); n != p.board.answered.Load() {
				p.board.answered.Store(n)
			} else if polls%plainPolls == 0 {
				polling.Yield()
			}
		}
	}
}

// one is the 64-bit number 1 for a write to an eventfd.
var one = [8]byte{1}

// exchange sends n numbers, each after the answer to the previous one. Both ends sleep while they wait.
// It returns the time taken, and records a lap for each answer.
func (p *plain) exchange(n int, l *laps) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	number := p.board.pong.Load()
	l.start()
	start := time.Now()
	for range n {
		number++
		if err := p.ask(number); err != nil {
			return 0, err
		}
		l.add()
	}
	return time.Since(start), nil
}

// ask sends one number and sleeps until the answering end has sent it back.
func (p *plain) ask(n uint32) error {
	p.board.ping.Store(n)
	if _, err := unix.Write(p.out, one[:]); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	var word [8]byte
	for p.board.pong.Load() != n {
		if _, err := unix.Read(p.in, word[:]); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("eventfd: %w", err)
		}
	}
	return nil
}

// spin does the same as exchange, but both ends poll and never sleep. It records no laps, because reading the
// clock takes as long as an exchange.
func (p *plain) spin(n int, _ *laps) (time.Duration, error) {
	p.board.spinning.Store(1)
	defer p.board.spinning.Store(0)
	if err := p.ask(p.board.pong.Load() + 1); err != nil {
		return 0, err
	}
	number := p.board.answered.Load()
	start := time.Now()
	for range n {
		number++
		p.board.asked.Store(number)
		for polls := 1; p.board.answered.Load() != number; polls++ {
			if polls%plainPolls == 0 {
				polling.Yield()
			}
		}
	}
	return time.Since(start), nil
}

// close makes the answering end return and closes the asking end.
func (p *plain) close() error {
	p.board.ping.Store(0)
	_, err := unix.Write(p.out, one[:])
	return errors.Join(err, unix.Close(p.in), unix.Close(p.out), p.memory.Close())
}
