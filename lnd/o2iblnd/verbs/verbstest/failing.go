package verbstest

import (
	"bytes"
	"slices"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// noReceiveAtFirst: a message waits for a receive as often as the receiver has requested (o2iblnd 3.4).
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

// noReceiveAtAll: the sender's queue pair fails, and requests after the message are flushed.
func noReceiveAtAll(s *stage) {
	a, b := s.connectWith(0, verbs.ConnParam{Retries: 5, RNRRetries: 7}, verbs.ConnParam{RNRRetries: 1})
	s.a.receives(a, 0, 1)
	s.a.send(a, 101, outbox, 8)
	s.a.send(a, 102, outbox, 8)
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.RNRExceeded}, 102: flushed, 0: flushed})
	s.part(a, b)
}

var flushed = []verbs.Status{verbs.Flushed}

// failed waits for the completions of posted work. Each must have one of its wanted statuses.
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

// write posts an RDMA WRITE of 8 bytes, WRID 101, and a message after it, WRID 102.
func (s *stage) write(i verbs.ID, remote uint64, rkey uint32, p verbs.Piece) {
	s.Helper()
	_, _, err := i.Post(nil, []verbs.Request{
		{WRID: 101, Op: verbs.RDMAWrite, Remote: remote, RKey: rkey, Count: 1},
		{WRID: 102, First: 1, Count: 1, Flags: verbs.FlagSignalled},
	}, []verbs.Piece{p, s.a.piece(outbox, 8)})
	s.must(err)
}

// remoteKey: a wrong key changes no memory and ends the connection on both sides. The peer's receives are
// flushed, or removed by Disconnect.
func remoteKey(s *stage) {
	a, b := s.connect(2)
	s.write(a, s.b.mem.Addr()+sink, s.b.mem.RKey()+0x1234_0000, s.a.piece(bulk, 8))
	s.denied(a, b)
}

// remoteBounds: addresses outside of the registration have the same effect.
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

// localKey: a wrong local key makes the first request with it fail. Soft-RoCE has another status for it.
func localKey(s *stage) {
	a, b := s.connect(1)
	p := s.a.piece(bulk, 8)
	p.LKey += 0x1234_0000
	s.write(a, s.b.mem.Addr()+sink, s.b.mem.RKey(), p)
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.LocalProtection, verbs.LocalQPError}, 102: flushed, 0: flushed})
	s.part(a, b)
}

// messageTooLong: a message that is longer than the receive fails on both sides. Soft-RoCE has other
// statuses for it.
func messageTooLong(s *stage) {
	a, b := s.connect(1)
	s.a.send(a, 101, bulk, 2*buffer)
	s.failed(s.b, b, map[uint64][]verbs.Status{0: {verbs.LocalLengthError, verbs.LocalQPError}})
	s.failed(s.a, a, map[uint64][]verbs.Status{101: {verbs.RemoteInvalid, verbs.RemoteOperation}, 0: flushed})
	s.part(a, b)
}

// disconnect: both sides are notified, and posted work is flushed.
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

// destroyConnected: the peer is notified.
func destroyConnected(s *stage) {
	a, b := s.connect(2)
	b.Destroy()
	if ev := s.a.expect(verbs.EventDisconnected); ev.ID != a {
		s.Error("of another ID")
	}
	a.Destroy()
}

// fail: posted work is flushed, including requests without FlagSignalled. The peer is not notified yet.
func fail(s *stage) {
	a, b := s.connectWith(1, param, verbs.ConnParam{RNRRetries: 7})
	_, _, err := b.Post(nil, nil, nil)
	s.must(err)
	s.must(a.Fail())
	s.failed(s.a, a, map[uint64][]verbs.Status{0: flushed})
	s.must(a.Fail())
	s.part(a, b)
}

// postAfterError: work posted to a failed queue pair is flushed or discarded.
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
