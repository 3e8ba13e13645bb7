package clients

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// Clients write random data to their rings, entries and counters alike, while lnetd reads them. Other
// clients notice nothing, and nothing stays behind.
//
// transport 9.9 (1), 9.9 (2), 9.9 (7), 9.9 (11)
// r.m0.net.xprt.lnet.dev.safe-sharing
func TestScribblers(t *testing.T) {
	w := newWorld(t, nil)
	other := w.one(8, 16)
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	before := held(t)
	for round := range rounds {
		scribble(t, w, rand.New(rand.NewPCG(1, uint64(round))))
		eventually(t, "it is gone", func() bool { return len(w.server.Clients()) == 1 })
		other.tm.submit(
			of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1}, other.buffer, uint32(round)),
			of(shm.Submission{Opcode: shm.OpCancel}, other.buffer, uint32(round)))
		if c := other.tm.next(); c.Errno != syscall.ECANCELED || !c.Final {
			t.Errorf("%+v", c)
		}
	}
	noMore(t, before)
}

// scribble is a client that does valid and invalid things, until it is disconnected or stops.
func scribble(t *testing.T, w *world, r *rand.Rand) {
	t.Helper()
	p := w.join()
	defer func() { _ = p.conn.Close() }()
	area := p.share(4096)
	defer func() { _ = area.memory.Close() }()
	var reply protocol.TMStartReply
	fds, err := p.request(&protocol.TMStart{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7, Completions: 16}, &reply)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(fds)
	const size, firstEntry = 4096 + 64*128 + 16*64, 4096
	m, err := unix.Mmap(fds[0], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	at := transport.Address{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7}
	all := good(p.register(protocol.Range{Area: area.id, Length: 4096}), 1, at)
	wake := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for range 50 {
		tail := m[64:68]
		for range r.IntN(64) {
			s := all[shm.Opcode(1+r.IntN(6))]
			s.Operation = uint32(r.IntN(3))
			if r.IntN(4) == 0 {
				s.Opcode = shm.OpCancel
			}
			place := (uint32(tail[0]) | uint32(tail[1])<<8) % 64
			s.Put((*[shm.SubmissionSize]byte)(m[firstEntry+shm.SubmissionSize*place:]))
			add(m, 64, 1)
		}
		if _, err := unix.Write(fds[1], wake); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(20) {
			switch r.IntN(8) {
			case 0: // anything but the header of the file, which lnetd does not read
				m[64+r.IntN(size-64)] = byte(r.Uint32())
			case 1:
				area.memory.Bytes()[r.IntN(4096)] = byte(r.Uint32())
			default: // an entry
				m[firstEntry+r.IntN(64*shm.SubmissionSize)] = byte(r.Uint32())
			}
		}
		if r.IntN(8) == 0 {
			copy(m[256:260], m[192:196]) // pretends to have read all completions
		}
	}
}

// A TM reads a limited number of submissions before others get a turn.
//
// transport 9.9 (10)
func TestRound(t *testing.T) {
	tm, files, err := newTM(&client{server: &Server{}}, transport.Address{TMID: 7}, 128)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tm.ring.Close() }()
	c, err := shm.AttachRing(files)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for range 2*perRound + 8 {
		if ok, err := c.Submissions.Put(&shm.Submission{Opcode: shm.OpNop}); !ok {
			t.Fatal(err)
		}
	}
	c.Submissions.Publish()
	for _, want := range []int{perRound, perRound, 8, 0} {
		if n, err := tm.processRound(); n != want || err != nil {
			t.Errorf("took %d, want %d: %v", n, want, err)
		}
	}
}
