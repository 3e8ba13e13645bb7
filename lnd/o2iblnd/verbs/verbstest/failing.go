package verbstest

import (
	"bytes"
	"slices"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// noReceiveAtFirst sends a message before a receive is posted for it. The message must be retransmitted until
// there is one, because the receiver has requested that (ConnParam.RNRRetries, o2iblnd 3.4).
func noReceiveAtFirst(s *stage) {
	a, b := s.connectWith(0, verbs.ConnParam{Retries: 5, RNRRetries: 0}, verbs.ConnParam{RNRRetries: 7})
	copy(s.a.mem.Bytes()[outbox:], "patience")
	s.a.send(a, 1, outbox, 8)
	s.b.receives(b, 3, 1)
	if c := s.b.receive(b); string(s.b.received(c.WRID)[:c.Bytes]) != "patience" {
		s.Errorf("%+v", c)
	}
	s.a.succeeded(a)
	s.part(a, b)
}

// noReceiveAtAll sends a message for which no receive is ever posted. The sender's queue pair must fail, and
// the requests after the message must be flushed.
func noReceiveAtAll(s *stage) {
	a, b := s.connectWith(0, verbs.ConnParam{Retries: 5, RNRRetries: 7}, verbs.ConnParam{RNRRetries: 1})
	s.a.receives(a, 0, 1)
	s.a.send(a, 101, outbox, 8)
	s.a.send(a, 102, outbox, 8)
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.RNRExceeded}, 102: flushed, 0: flushed})
	s.part(a, b)
}

var flushed = []verbs.Status{verbs.Flushed}

// failed waits for completions of the queue pair of i until each WRID in want has completed with one of the
// statuses there.
func (s *stage) failed(e *end, i verbs.ID, want map[uint64][]verbs.Status) {
	s.Helper()
	for len(want) > 0 {
		c := e.completion(i)
		if !slices.Contains(want[c.WRID], c.Status) {
			s.Errorf("request %d: %s, want one of %s", c.WRID, c.Status, want[c.WRID])
		}
		delete(want, c.WRID)
	}
}

// write posts an RDMA WRITE of the 8 bytes of p, with WRID 101, and a message after it, with WRID 102.
func (s *stage) write(i verbs.ID, remote uint64, rkey uint32, p verbs.Piece) {
	s.Helper()
	_, _, err := i.Post(nil, []verbs.Request{
		{WRID: 101, Op: verbs.RDMAWrite, Remote: remote, RKey: rkey, Count: 1},
		{WRID: 102, First: 1, Count: 1, Flags: verbs.FlagSignalled},
	}, []verbs.Piece{p, s.a.piece(outbox, 8)})
	s.must(err)
}

// remoteKey writes with a wrong remote key. This must change no memory and make the queue pairs of both sides
// fail.
func remoteKey(s *stage) {
	a, b := s.connect(2)
	s.write(a, s.b.mem.Addr()+sink, s.b.mem.RKey()+0x1234_0000, s.a.piece(bulk, 8))
	s.denied(a, b)
}

// remoteBounds writes to addresses outside of a registration, and to memory that peers must not write to. This
// must have the same effect as a wrong key.
func remoteBounds(s *stage) {
	a, b := s.connect(2)
	s.write(a, s.b.mem.Addr()+arena-4, s.b.mem.RKey(), s.a.piece(bulk, 8))
	s.denied(a, b)

	readOnly, err := s.b.dev.Register(make([]byte, 4096), verbs.AccessLocalWrite)
	s.must(err)
	a, b = s.connect(2)
	s.write(a, readOnly.Addr(), readOnly.RKey(), s.a.piece(bulk, 8))
	s.denied(a, b)
	s.must(readOnly.Close())
}

// denied checks the effect of a WRITE that the peer does not allow, and ends the connection.
func (s *stage) denied(a, b verbs.ID) {
	s.Helper()
	fill(s.a.mem.Bytes()[bulk:][:8], 1)
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.RemoteAccess}, 102: flushed, 0: flushed, 1: flushed})
	if !bytes.Equal(s.b.mem.Bytes()[sink:][:8], make([]byte, 8)) || !bytes.Equal(s.b.mem.Bytes()[arena-4:], make([]byte, 4)) {
		s.Error("bytes were written")
	}
	s.must(b.Disconnect())
	s.failed(s.b, b, map[uint64][]verbs.Status{0: flushed, 1: flushed})
	s.a.expect(verbs.EventDisconnected)
	a.Destroy()
	b.Destroy()
}

// localKey posts a request with a wrong local key, which must fail. The status is different with soft-RoCE.
func localKey(s *stage) {
	a, b := s.connect(1)
	p := s.a.piece(bulk, 8)
	p.LKey += 0x1234_0000
	s.write(a, s.b.mem.Addr()+sink, s.b.mem.RKey(), p)
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.LocalProtection, verbs.LocalQPError}, 102: flushed, 0: flushed})
	s.part(a, b)
}

// messageTooLong sends a message that is longer than the receive. Both sides must fail. The statuses are
// different with soft-RoCE.
func messageTooLong(s *stage) {
	a, b := s.connect(1)
	s.a.send(a, 101, bulk, 2*buffer)
	s.failed(s.b, b, map[uint64][]verbs.Status{0: {verbs.LocalLengthError, verbs.LocalQPError}})
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.RemoteInvalid, verbs.RemoteOperation}, 0: flushed})
	s.part(a, b)
}

// disconnect checks that Disconnect flushes posted work and that both sides are notified.
func disconnect(s *stage) {
	a, b := s.connect(2)
	s.must(a.Disconnect())
	s.failed(s.a, a, map[uint64][]verbs.Status{0: flushed, 1: flushed})
	if ev := s.b.expect(verbs.EventDisconnected); ev.ID != b {
		s.Error("of another ID")
	}
	s.must(b.Disconnect())
	s.failed(s.b, b, map[uint64][]verbs.Status{0: flushed, 1: flushed})
	if ev := s.a.expect(verbs.EventDisconnected); ev.ID != a {
		s.Error("of another ID")
	}
	s.must(a.Disconnect())
	a.Destroy()
	b.Destroy()
}

// destroyConnected checks that the peer is notified if an ID with a connection is destroyed.
func destroyConnected(s *stage) {
	a, b := s.connect(2)
	b.Destroy()
	if ev := s.a.expect(verbs.EventDisconnected); ev.ID != a {
		s.Error("of another ID")
	}
	a.Destroy()
}

// fail checks that Fail flushes posted work.
func fail(s *stage) {
	a, b := s.connectWith(1, param, verbs.ConnParam{RNRRetries: 7})
	_, _, err := b.Post(nil, nil, nil)
	s.must(err)
	s.must(a.Fail())
	s.failed(s.a, a, map[uint64][]verbs.Status{0: flushed})
	s.must(a.Fail())
	s.part(a, b)
}

// postAfterError checks that work that is posted to a failed queue pair is flushed or discarded.
func postAfterError(s *stage) {
	a, b := s.connect(0)
	s.must(a.Fail())
	_, _, err := a.Post([]verbs.Recv{s.a.recv(5)}, []verbs.Request{{WRID: 6, Count: 1}, {WRID: 7, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{s.a.piece(outbox, 8)})
	s.must(err)
	qpn := a.QPN()
	s.part(a, b)
	for k := len(s.a.completions); k > 0; k-- {
		if c := <-s.a.completions; c.QPN != qpn || c.WRID < 5 || c.Status != verbs.Flushed {
			s.Errorf("%+v", c)
		} else {
			s.Logf("request %d is flushed", c.WRID)
		}
	}
}
