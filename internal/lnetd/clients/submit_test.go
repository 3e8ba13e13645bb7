package clients

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// one is a client with a TM, number 7 at portal 34, and a buffer of 4096 bytes.
type one struct {
	*peer
	tm     *ring
	memory sharedArea
	buffer protocol.BufRegisterReply
}

func (w *world) one(id, entries uint32) *one {
	w.t.Helper()
	o := &one{peer: w.join()}
	o.memory = o.share(4096)
	o.tm = o.start(34, id, entries)
	o.buffer = o.register(protocol.Range{Area: o.memory.id, Length: 4096})
	return o
}

// good returns a valid operation of each kind on a buffer.
func good(b protocol.BufRegisterReply, operation uint32, at transport.Address) map[shm.Opcode]shm.Submission {
	bits := uint64(transport.MakeMatchBits(at.TMID, 9))
	all := map[shm.Opcode]shm.Submission{
		shm.OpMsgRecv: {MinReceive: 1, MaxMessages: 1}, shm.OpMsgSend: to(shm.Submission{Length: 1}, at),
		shm.OpPassiveRecv: {MatchBits: bits}, shm.OpPassiveSend: {MatchBits: bits, Length: 1},
		shm.OpActiveRecv: to(shm.Submission{MatchBits: bits, Length: 1}, at), shm.OpActiveSend: to(shm.Submission{MatchBits: bits, Length: 1}, at),
	}
	for o, s := range all {
		s.Opcode = o
		all[o] = of(s, b, operation)
	}
	return all
}

// Submissions that break the rules end the connection, with a reason.
//
// transport-tests P (119)
// transport 9.9 (4), 9.9 (5), 9.9 (9)
func TestViolations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *one, s *shm.Submission)
		opcode shm.Opcode
		errno  syscall.Errno
	}{
		"index":             {func(_ *one, s *shm.Submission) { s.Buffer = 1 }, shm.OpMsgSend, syscall.EBADR},
		"large index":       {func(_ *one, s *shm.Submission) { s.Buffer = 1<<32 - 1 }, shm.OpMsgSend, syscall.EBADR},
		"index of a cancel": {func(_ *one, s *shm.Submission) { s.Opcode, s.Buffer = shm.OpCancel, 1 }, shm.OpMsgSend, syscall.EBADR},
		"generation":        {func(_ *one, s *shm.Submission) { s.Generation++ }, shm.OpMsgSend, syscall.EBADR},
		"number in match bits": {func(o *one, s *shm.Submission) {
			s.MatchBits = uint64(transport.MakeMatchBits(o.tm.at.TMID+1, 1))
		}, shm.OpPassiveRecv, syscall.EINVAL},
		"counter of match bits": {func(o *one, s *shm.Submission) {
			s.MatchBits = uint64(transport.MakeMatchBits(o.tm.at.TMID, 0))
		}, shm.OpPassiveSend, syscall.EINVAL},
		"opcode": {func(_ *one, s *shm.Submission) { s.Opcode = 9 }, shm.OpMsgSend, syscall.EPROTO},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			o := w.one(7, 16)
			s := good(o.buffer, 1, o.tm.at)[c.opcode]
			c.change(o, &s)
			// Other submissions in the round are lost, too.
			waits := good(o.register(protocol.Range{Area: o.memory.id, Length: 1}), 1, o.tm.at)[shm.OpMsgRecv]
			if name == "index" || name == "index of a cancel" {
				s.Buffer = 2
			}
			o.tm.submit(waits, s)
			o.cut(c.errno, "TM at "+o.tm.at.String())
			w.empty()
		})
	}
}

// A second operation on a busy buffer is a violation.
//
// transport 9.9 (4)
func TestBufferWithAnOperation(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	receive := good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv]
	o.tm.begin(receive)
	o.refused(&protocol.BufDeregister{Index: o.buffer.Index, Generation: o.buffer.Generation}, syscall.EBUSY)
	o.refused(&protocol.TMStop{Handle: o.tm.handle}, syscall.EBUSY)
	o.tm.submit(receive)
	o.cut(syscall.EBUSY, "is in use by an operation")
}

// An invalid operation is rejected, and only this one. The same holds for an operation that the Core
// rejects.
//
// transport-tests P (119)
// transport 9.9 (6), 9.9 (9)
func TestRejected(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	operation := uint32(0)
	for name, c := range map[string]struct {
		change  func(s *shm.Submission)
		opcodes []shm.Opcode
	}{
		"long":      {func(s *shm.Submission) { s.Length = 4097 }, []shm.Opcode{shm.OpMsgSend, shm.OpPassiveSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"longest":   {func(s *shm.Submission) { s.Length = 1<<32 - 1 }, []shm.Opcode{shm.OpMsgSend, shm.OpPassiveSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"empty":     {func(s *shm.Submission) { s.Length = 0 }, []shm.Opcode{shm.OpMsgSend, shm.OpPassiveSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"portal 0":  {func(s *shm.Submission) { s.Portal = 0 }, []shm.Opcode{shm.OpMsgSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"portal 64": {func(s *shm.Submission) { s.Portal = 64 }, []shm.Opcode{shm.OpMsgSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"PID":       {func(s *shm.Submission) { s.PID = 1 }, []shm.Opcode{shm.OpMsgSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"TM id 0":   {func(s *shm.Submission) { s.TMID = 0 }, []shm.Opcode{shm.OpMsgSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"large id":  {func(s *shm.Submission) { s.TMID = 4096 }, []shm.Opcode{shm.OpMsgSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"nowhere":   {func(s *shm.Submission) { s.Peer = lnet.NID{} }, []shm.Opcode{shm.OpMsgSend, shm.OpActiveRecv, shm.OpActiveSend}},
		"another's": {func(s *shm.Submission) { s.MatchBits = uint64(transport.MakeMatchBits(8, 1)) }, []shm.Opcode{shm.OpActiveRecv, shm.OpActiveSend}},
		"counter":   {func(s *shm.Submission) { s.MatchBits = uint64(transport.MakeMatchBits(7, 0)) }, []shm.Opcode{shm.OpActiveRecv, shm.OpActiveSend}},
		"least":     {func(s *shm.Submission) { s.MinReceive = 0 }, []shm.Opcode{shm.OpMsgRecv}},
		"most":      {func(s *shm.Submission) { s.MinReceive = 4097 }, []shm.Opcode{shm.OpMsgRecv}},
		"messages":  {func(s *shm.Submission) { s.MaxMessages = 0 }, []shm.Opcode{shm.OpMsgRecv}},
	} {
		for _, opcode := range c.opcodes {
			operation++
			s := good(o.buffer, operation, o.tm.at)[opcode]
			c.change(&s)
			o.tm.submit(s)
			want := shm.Completion{
				Buffer: o.buffer.Index, Generation: o.buffer.Generation, Operation: operation,
				Errno: syscall.EINVAL, Final: true, Rejected: true,
			}
			got := o.tm.next()
			if want.Time = got.Time; got != want {
				t.Errorf("%s, %v: %+v", name, opcode, got)
			}
		}
	}
	info := w.server.Clients()[0].TMs[0]
	if info.Rejected != uint64(operation) {
		t.Errorf("%+v", info)
	}
	for q, f := range info.Queues {
		if f.InQueue != 0 || f.Failed != 0 {
			t.Errorf("queue %d: %+v", q, f)
		}
	}
	o.must(&protocol.TMStop{Handle: o.tm.handle}, &protocol.Counters{})
}

// A cancel of a completed operation, or for a deregistered buffer, is ignored.
//
// transport-tests P (119)
// transport 9.4, 9.9 (4)
func TestStaleCancels(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	gone := o.register(protocol.Range{Area: o.memory.id, Length: 1})
	o.must(&protocol.BufDeregister{Index: gone.Index, Generation: gone.Generation}, &protocol.Empty{})
	receive := good(o.buffer, 5, o.tm.at)[shm.OpMsgRecv]
	cancel := func(b protocol.BufRegisterReply, operation uint32) shm.Submission {
		return of(shm.Submission{Opcode: shm.OpCancel}, b, operation)
	}
	stale := o.buffer
	stale.Generation--
	o.tm.submit(cancel(o.buffer, 4), receive, cancel(o.buffer, 4), cancel(stale, 5), cancel(gone, 1), shm.Submission{Opcode: shm.OpNop})
	eventually(t, "all are read", func() bool { return w.server.Clients()[0].TMs[0].Submissions == 6 })
	if d := w.server.Clients()[0].TMs[0].Queues[transport.MsgRecv].Depth; d != 1 {
		t.Errorf("depth %d", d)
	}
	o.tm.submit(cancel(o.buffer, 5), cancel(o.buffer, 5))
	if c := o.tm.next(); c.Errno != syscall.ECANCELED || c.Operation != 5 {
		t.Errorf("%+v", c)
	}
	// Started and canceled in one round.
	receive.Operation = 6
	o.tm.submit(receive, cancel(o.buffer, 6))
	if c := o.tm.next(); c.Errno != syscall.ECANCELED || c.Operation != 6 {
		t.Errorf("%+v", c)
	}
}

// A client that changes counters or entries only harms itself.
//
// transport 9.9 (2)
func TestHostileRings(t *testing.T) {
	const sqTail, cqHead = 64, 256 // transport 9.4
	w := newWorld(t, nil)
	other := w.one(8, 16)
	for name, spoil := range map[string]func(b []byte){
		"tail far ahead": func(b []byte) { add(b, sqTail, 1<<20) },
		"tail behind":    func(b []byte) { add(b, sqTail, -1) },
		"one too many":   func(b []byte) { add(b, sqTail, 65) },
		"head beyond":    func(b []byte) { add(b, cqHead, 1) },
		"head behind":    func(b []byte) { add(b, cqHead, -17) },
		"zeros":          func(b []byte) { clear(b[:320]) }, // except for the flags of sleeping sides
	} {
		t.Run(name, func(t *testing.T) {
			o := w.join()
			r := o.start(34, 7, 16)
			r.asleep()
			spoil(r.file)
			r.Submissions.Ring()
			o.cut(syscall.EPROTO, "")
			eventually(t, "it is gone", func() bool { return len(w.server.Clients()) == 1 })
		})
	}
	other.tm.submit(good(other.buffer, 1, other.tm.at)[shm.OpMsgSend])
	if c := other.tm.next(); !c.Final {
		t.Errorf("%+v", c)
	}
}

// An impossible head of the completion ring ends the connection whatever lnetd does next with the ring:
// write a completion, or read a submission.
//
// transport 9.9 (2)
func TestImpossibleHeadIsFoundAtOnce(t *testing.T) {
	for name, use := range map[string]func(w *world, o *one){
		"NOP":    func(_ *world, o *one) { o.tm.submit(shm.Submission{Opcode: shm.OpNop}) },
		"CANCEL": func(_ *world, o *one) { o.tm.submit(of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, 9)) },
		"ring":   func(_ *world, o *one) { o.tm.Submissions.Ring() },
		"completion": func(w *world, o *one) {
			tm, err := w.client(o.peer).tm(o.tm.handle)
			if err != nil {
				t.Fatal(err)
			}
			tm.PushTM(transport.Completion{Err: syscall.ENOBUFS})
		},
	} {
		for _, off := range []int32{1, 2, 1 << 30, -1} {
			t.Run(fmt.Sprint(name, off), func(t *testing.T) {
				w := newWorld(t, nil)
				o := w.one(7, 16)
				o.tm.asleep()
				add(o.tm.file, 256, off)
				use(w, o)
				o.cut(syscall.EPROTO, "impossible")
				w.empty()
			})
		}
	}
}

// A client changes words of a ring file that only lnetd writes, that neither side writes, or that only
// wake. lnetd ignores that: it processes the next submission once, and the client stays connected.
//
// transport 9.4, 9.9 (2)
func TestIgnoredHeaderWords(t *testing.T) {
	for name, at := range map[string]int{
		"magic": 0, "version and header size": 4, "SQ offset": 8, "SQ entries": 12, "CQ offset": 16, "CQ entries": 20, "sizes of entries": 24,
		"SQ head": 128, "CQ tail": 192, "CQ sleeping": 384, "SQ posted": 576, "SQ waiting": 640, "CQ overflow": 704, "figures of submissions": 448, "figures of completions": 512,
	} {
		for _, off := range []int32{1, 1 << 30, -1} {
			t.Run(fmt.Sprint(name, off), func(t *testing.T) {
				w := newWorld(t, nil)
				o := w.one(7, 16)
				o.tm.asleep()
				o.tm.quietly(shm.Submission{Opcode: shm.OpNop}, shm.Submission{Opcode: shm.OpNop})
				o.tm.submitted += 2
				add(o.tm.file, at, off)
				o.tm.Submissions.Ring()
				o.tm.taken()
				if n := len(w.server.Clients()); n != 1 {
					t.Errorf("%d clients", n)
				}
			})
		}
	}
}

// add adds to a counter of a ring file.
func add(b []byte, at int, n int32) {
	binary.LittleEndian.PutUint32(b[at:], binary.LittleEndian.Uint32(b[at:])+uint32(n))
}

// No operation starts on a TM that is ending, and idle is closed once, by the last operation.
//
// transport 8.5
func TestNoOperationsWhileEnding(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	tm, err := w.client(o.peer).tm(o.tm.handle)
	if err != nil {
		t.Fatal(err)
	}
	tm.mu.Lock()
	tm.stopOperations()
	tm.mu.Unlock()
	o.tm.submit(good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv], shm.Submission{Opcode: shm.OpNop})
	eventually(t, "both are read", func() bool { return w.server.Clients()[0].TMs[0].Submissions == 2 })
	if i := w.server.Clients()[0].TMs[0]; i.Queues[transport.MsgRecv].Depth != 0 {
		t.Errorf("%+v", i)
	}
}
