package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/shm"
)

// FuzzShmSubmission reads what a client has written into its ring.
func FuzzShmSubmission(f *testing.F) {
	for _, s := range []shm.Submission{
		{Opcode: shm.OpMsgRecv, Buffer: 1, Generation: 2, Operation: 3, MinReceive: 4096, MaxMessages: 16},
		{Opcode: shm.OpMsgSend, More: true, Length: 1 << 20, Peer: lnetNID(f, "192.168.1.20@tcp"), PID: 12345, Portal: 30, TMID: 1},
		{Opcode: shm.OpActiveRecv, MatchBits: 1<<52 | 1, Peer: lnetNID(f, "2001:db8::20@tcp"), PID: 12345, Portal: 31, TMID: 4095},
		{Opcode: shm.OpCancel, Operation: 1<<32 - 1}, {Opcode: shm.OpNop},
	} {
		var b [shm.SubmissionSize]byte
		s.Put(&b)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in, out [shm.SubmissionSize]byte
		copy(in[:], b)
		var s shm.Submission
		if err := s.Decode(&in); err != nil {
			lnetNamed(t, err)
			if s != (shm.Submission{}) {
				t.Fatalf("half decoded: %+v", s)
			}
			return
		}
		if s.Put(&out); out != in {
			t.Fatalf("% x became % x", in, out)
		}
	})
}

// FuzzShmCompletion reads what lnetd has written into a client's ring.
func FuzzShmCompletion(f *testing.F) {
	for _, c := range []shm.Completion{
		{Buffer: 1, Generation: 2, Operation: 3, Length: 4096, Time: 1 << 40, Final: true},
		{Operation: 1, Sender: lnetNID(f, "192.168.1.20@tcp"), PID: 12345, Portal: 30, TMID: 1},
		{Sender: lnetNID(f, "2001:db8::20@tcp"), Errno: syscall.ENOSPC, Rejected: true, Final: true},
		{Errno: syscall.ENOBUFS, TM: true},
	} {
		var b [shm.CompletionSize]byte
		c.Put(&b)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in, out [shm.CompletionSize]byte
		copy(in[:], b)
		var c shm.Completion
		if err := c.Decode(&in); err != nil {
			lnetNamed(t, err)
			if c != (shm.Completion{}) {
				t.Fatalf("half decoded: %+v", c)
			}
			return
		}
		if c.Put(&out); out != in {
			t.Fatalf("% x became % x", in, out)
		}
	})
}

// shmFile creates a ring file. The test keeps a descriptor and maps the file, like a process that writes
// arbitrary bytes into it.
func shmFile(f testing.TB) (h *shm.Host, files shared.Files, memory []byte) {
	f.Helper()
	s := shared.Sizes{Submissions: 8, Completions: 2}
	h, files, err := shm.CreateRing(s)
	if err != nil {
		f.Fatal(err)
	}
	memory, err = unix.Mmap(files.Ring, 0, shm.FileSize(s), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.Fatal(err)
	}
	return h, files, memory
}

// FuzzShmRing writes into a ring file, before a client attaches to it or while both sides use it. Neither
// side may read more entries than the ring can hold, nor find more room.
func FuzzShmRing(f *testing.F) {
	h, files, memory := shmFile(f)
	f.Add(bytes.Clone(memory[:768]), false)
	f.Add(bytes.Clone(memory[:768]), true)
	binary.LittleEndian.PutUint32(memory[64:], 1<<32-255)
	f.Add(bytes.Clone(memory[:768]), true)
	binary.LittleEndian.PutUint32(memory[704:], 7)
	f.Add(bytes.Clone(memory[:768]), true)
	files.Close()
	if err := errors.Join(h.Close(), unix.Munmap(memory)); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, later bool) {
		h, files, memory := shmFile(t)
		defer func() {
			if err := errors.Join(h.Close(), unix.Munmap(memory)); err != nil {
				t.Fatal(err)
			}
		}()
		if !later {
			copy(memory, b)
		}
		c, err := shm.AttachRing(files)
		if err != nil {
			if !errors.Is(err, syscall.EPROTO) || later {
				t.Fatal(err)
			}
			return
		}
		if later {
			copy(memory, b)
		}
		if s := c.Sizes(); shm.FileSize(s) > len(memory)+os.Getpagesize() {
			t.Fatalf("%+v in %d bytes", s, len(memory))
		}
		var s shm.Submission
		var d shm.Completion
		if n := shmTaken(t, func() (bool, error) { return h.Submissions.Next(&s) }); n > 8 {
			t.Fatalf("%d of 8 submissions", n)
		}
		if n := shmTaken(t, func() (bool, error) { return c.Completions.Next(&d) }); n > c.Sizes().Completions {
			t.Fatalf("%d of %d completions", n, c.Sizes().Completions)
		}
		if n, _ := h.Completions.Room(); n < 0 || n > 2 {
			t.Fatalf("room for %d of 2 completions", n)
		}
		if n, _ := c.Submissions.Room(); n < 0 || n > c.Sizes().Submissions {
			t.Fatalf("room for %d of %d submissions", n, c.Sizes().Submissions)
		}
		h.Completions.MarkOverflow()
		if !h.Completions.OverflowMarked() {
			t.Fatal("the flag is not set")
		}
		h.Submissions.Release()
		if !c.Completions.ReleaseAndClaim() || c.Completions.ReleaseAndClaim() || h.Completions.OverflowMarked() {
			t.Fatal("the client does not wake lnetd once")
		}
		h.Completions.Ring()
		c.Submissions.Ring()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// shmTaken reads all entries and returns their number.
func shmTaken(t *testing.T, next func() (bool, error)) (n int) {
	t.Helper()
	for {
		ok, err := next()
		switch {
		case ok && err != nil:
			lnetNamed(t, err)
		case err != nil:
			if !errors.Is(err, shared.ErrRing) {
				t.Fatal(err)
			}
			return n
		case !ok:
			return n
		}
		if n++; n > 1<<18 {
			t.Fatal("there is no end of it")
		}
	}
}
