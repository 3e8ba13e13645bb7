package shared

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// echo is a client in a separate process. It answers each completion with a submission of the same number. It
// ends with the host, unless it polls. The files of its end are 3, 4 and 5.
func echo(spin bool) {
	c, err := format.Attach(Files{Ring: 3, Submissions: 4, Completions: 5})
	if err != nil {
		panic(err)
	}
	spins := 0
	for {
		n, ok, err := next(&c.Completions.Consumer)
		if err != nil {
			panic(err)
		}
		if ok {
			c.Completions.Release()
			if ok, err := put(&c.Submissions.Producer, n); !ok {
				panic(err)
			}
			continue
		}
		c.Submissions.Publish()
		c.Submissions.Ring()
		if spin {
			if spins++; spins%spinning == 0 {
				runtime.Gosched()
			}
			continue
		}
		if err := c.Completions.Wait(never); errors.Is(err, ErrGone) {
			return
		} else if err != nil {
			panic(err)
		}
	}
}

// spinning is the number of polls between two yields.
const spinning = 1000

// roundTrip sends n to an echo and waits for the answer.
func roundTrip(h *Host, n uint32, spin bool) error {
	if ok, err := put(&h.Completions.Producer, n); !ok {
		return err
	}
	h.Completions.Publish()
	h.Completions.Ring()
	for spins := 1; ; spins++ {
		got, ok, err := next(&h.Submissions.Consumer)
		h.Submissions.Release()
		switch {
		case err != nil:
			return err
		case ok && got != n:
			return errors.New("another number came back")
		case ok:
			return nil
		case spin:
			if spins%spinning == 0 {
				runtime.Gosched()
			}
		default:
			if err := h.Submissions.Wait(never); err != nil {
				return err
			}
		}
	}
}

// With the other end in another process, batches come back one by one. The process ends when this one
// closes its end, and then all descriptors are closed.
//
// transport 9.6 (1)
// r.M0.lib.atomic.interoperable-kernel-user-support
// transport-tests O (114)
func TestAnotherProcess(t *testing.T) {
	before := open(t)
	h, files, err := format.Create(Sizes{64, 64})
	if err != nil {
		t.Fatal(err)
	}
	other := startOther(t, "echo", files.Ring, files.Submissions, files.Completions)
	for n := range uint32(2000) {
		if err := roundTrip(h, n, false); err != nil {
			t.Fatal(err)
		}
	}
	for batch := range uint32(500) {
		for n := range uint32(64) {
			if ok, err := put(&h.Completions.Producer, 64*batch+n); !ok {
				t.Fatal(batch, n, err)
			}
		}
		h.Completions.Publish()
		h.Completions.Ring()
		for want := 64 * batch; want < 64*batch+64; {
			switch n, ok, err := next(&h.Submissions.Consumer); {
			case err != nil:
				t.Fatal(err)
			case !ok:
				h.Submissions.Release()
				if err := h.Submissions.Wait(never); err != nil {
					t.Fatal(err)
				}
			case n != want:
				t.Fatalf("%d came back, not %d", n, want)
			default:
				want++
			}
		}
		h.Submissions.Release()
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// After the other process is killed, this end can still be used: entries can be put, wakes have no effect,
// and Shut ends Wait.
func TestAnotherProcessIsKilled(t *testing.T) {
	h, files := newHost(t, 4, 4)
	other := startOther(t, "echo", files.Ring, files.Submissions, files.Completions)
	if err := roundTrip(h, 1, false); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	for n := range uint32(4) {
		if ok, err := put(&h.Completions.Producer, n); !ok || err != nil {
			t.Error(n, err)
		}
		h.Completions.Publish()
		h.Completions.Ring()
	}
	if room, err := h.Completions.Room(); room != 0 || err != nil {
		t.Errorf("room for %d, %v", room, err)
	}
	h.Shut()
	if err := h.Submissions.Wait(never); !errors.Is(err, ErrShut) {
		t.Error(err)
	}
}

// plainEcho is the reference for the rings: a word in shared memory (3), which is answered in the next line
// of it, and an eventfd in each direction (4, 5), unless both sides poll.
func plainEcho(spin bool) {
	m, err := mapped(3, os.Getpagesize())
	if err != nil {
		panic(err)
	}
	p := plain{m, 64, 0, bellOf(4), 5, spin}
	for n := uint32(1); p.receive(n) == nil; n++ {
		p.send(n)
	}
}

// plain is one end of the reference that plainEcho describes: a process that writes one word and reads the
// other one.
type plain struct {
	memory *Memory
	to, at int // offsets of the words to write and to read
	bell   *os.File
	ring   int
	spin   bool
}

func bellOf(fd int) *os.File {
	if err := unix.SetNonblock(fd, true); err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), "eventfd")
}

var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

func (p *plain) send(n uint32) {
	word(p.memory.bytes, p.to).Store(n)
	if !p.spin {
		if _, err := unix.Write(p.ring, one); err != nil {
			panic(err)
		}
	}
}

func (p *plain) receive(n uint32) error {
	var b [8]byte
	for spins := 1; word(p.memory.bytes, p.at).Load() != n; spins++ {
		if p.spin {
			if spins%spinning == 0 {
				runtime.Gosched()
			}
		} else if _, err := p.bell.Read(b[:]); err != nil {
			return err
		}
	}
	return nil
}
