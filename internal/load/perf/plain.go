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

	"github.com/lnetd/lnetd/transport/shm"
)

// The plain exchange is the best that two processes can do with shared memory alone: one writes a number
// and wakes the other with an eventfd, which answers the same way. Or both poll the numbers and never
// sleep.

// sharedBoard is the shared memory. Each polled word has its own cache line.
type sharedBoard struct {
	ping, pong atomic.Uint32
	_          [lineSize - 8]byte
	asked      atomic.Uint32 // number of the asking end
	_          [lineSize - 4]byte
	answered   atomic.Uint32 // the same number, of the answering end
	_          [lineSize - 4]byte
	spinning   atomic.Uint32 // 1: the answering end polls asked
}

const (
	lineSize = 64
	// boardSize is the size of a page.
	boardSize = 4096
	// plainLooks is the number of polls before a yield to other threads.
	plainLooks = 256
)

// plain is one end of a board.
type plain struct {
	memory  *shm.Memory
	board   *sharedBoard
	in, out int // eventfds
}

// PlainFiles are the files of the answering end. A process that is started inherits them.
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

// newPlain returns the asking end and the files for the answering end.
func newPlain() (*plain, PlainFiles, error) {
	m, fd, err := shm.Create("plain", boardSize)
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

func boardOf(m *shm.Memory) *sharedBoard {
	return (*sharedBoard)(unsafe.Pointer(unsafe.SliceData(m.Bytes())))
}

// answerPlain runs the answering end. It returns when the number is 0.
func answerPlain(f PlainFiles) error {
	defer runtime.KeepAlive(&f) // unreachable files are closed
	fd, err := unix.Dup(int(f.Board.Fd()))
	if err != nil {
		return err
	}
	m, err := shm.Adopt(fd, boardSize)
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
		for looks := 1; p.board.spinning.Load() == 1; looks++ {
			if n := p.board.asked.Load(); n != p.board.answered.Load() {
				p.board.answered.Store(n)
			} else if looks%plainLooks == 0 {
				shm.Yield()
			}
		}
	}
}

// one is what is written to an eventfd.
var one = [8]byte{1}

// exchange sends n numbers, each after the previous one was answered.
func (p *plain) exchange(n int) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	number := p.board.pong.Load()
	start := time.Now()
	for range n {
		number++
		if err := p.ask(number); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// ask sends one number and sleeps until it comes back.
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

// spin is exchange while both ends poll.
func (p *plain) spin(n int) (time.Duration, error) {
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
		for looks := 1; p.board.answered.Load() != number; looks++ {
			if looks%plainLooks == 0 {
				shm.Yield()
			}
		}
	}
	return time.Since(start), nil
}

// close ends the answering end.
func (p *plain) close() error {
	p.board.ping.Store(0)
	_, err := unix.Write(p.out, one[:])
	return errors.Join(err, unix.Close(p.in), unix.Close(p.out), p.memory.Close())
}
