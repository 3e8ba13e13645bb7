package selftest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// stranger is a process that sends arbitrary messages as bytes, with one buffer for replies and one for
// bulk.
type stranger struct {
	*player
	mu      sync.Mutex
	replies [][]byte
}

// Match bits of a stranger's buffers.
const (
	strangeReply = 0x1111
	strangeBulk  = 0x2222
)

func (s *stage) stranger(victim *player, bulk []byte, options portals.MDOptions) *stranger {
	s.t.Helper()
	x := &stranger{player: s.player("stranger", "10.0.0.66")}
	reply := make([]byte, 64*message.Size)
	attach := func(bits uint64, d portals.MD) {
		d.Threshold = portals.Unlimited
		entry := portals.Entry{Portal: message.ReplyPortal, Match: victim.id, MatchBits: bits}
		if _, err := x.node.Attach(entry, d); err != nil {
			s.t.Fatal(err)
		}
	}
	attach(strangeReply, portals.MD{Bytes: reply, Options: portals.OpPut, Handler: portals.HandlerFunc(func(e *portals.Event) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.replies = append(x.replies, e.Data())
	})})
	if bulk != nil {
		attach(strangeBulk, portals.MD{
			Bytes: bulk, Options: options | portals.ManageRemote, Handler: portals.HandlerFunc(func(*portals.Event) {
				x.mu.Lock() // orders the writes into the buffer before later holders of the lock
				defer x.mu.Unlock()
			}),
		})
	}
	return x
}

// send sends bytes to a portal.
func (x *stranger) send(to *player, portal uint32, bits uint64, b []byte) {
	x.t.Helper()
	_, err := x.node.PutWait(context.Background(), b, to.id, node.PutOptions{Portal: portal, MatchBits: bits})
	if err != nil {
		x.t.Fatal(err)
	}
}

// ask sends a request and returns the replies received within a second.
func (x *stranger) ask(to *player, q message.Request) [][]byte {
	x.t.Helper()
	x.send(to, q.Service().Portal(), uint64(q.Service()), q.Append(nil))
	return x.answers()
}

func (x *stranger) answers() [][]byte {
	time.Sleep(time.Second)
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.replies
	x.replies = nil
	return r
}

// serving returns a node with a session and server tests of both kinds.
func (s *stage) serving(c Config) (*player, *console) {
	s.t.Helper()
	p := s.player("server", "10.0.0.3").agent(c)
	con := s.player("console", "10.0.0.1").console(1)
	con.make(p, false)
	for _, q := range []*message.TestRequest{con.test(1), brw(con.test(1), message.BRWRead, 8, message.CheckNone)} {
		if status := con.add(p, q); status != message.OK {
			s.t.Fatal(status)
		}
	}
	return p, con
}

// Given a server, when malformed messages come, or messages to the wrong place, then they are counted and
// dropped without an answer, nothing waits for them, and the server continues.
//
// selftest 2.5 (1), 3 counters, 6 (1)
func TestMalformedRequests(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, _ := s.serving(Config{})
		x := s.stranger(server, nil, 0)
		ping := message.PingRequest{Header: message.NewHeader(1), ReplyID: strangeReply, Magic: message.PingMagic, Seq: 7}
		good := ping.Append(nil)
		spoilt := func(at int, b byte) []byte {
			m := append([]byte(nil), good...)
			m[at] = b
			return m
		}
		before := server.Counters()
		malformed := []struct {
			portal uint32
			bits   uint64
			b      []byte
		}{
			{50, 12, nil}, {50, 12, good[:159]}, {50, 12, append(good[:160:160], 0)}, {50, 12, make([]byte, 1<<20)},
			{50, 12, spoilt(0, 0)}, {50, 12, spoilt(8, 15)}, {50, 12, spoilt(8, 12)}, {50, 12, spoilt(8, 99)},
			{50, 11, good}, {50, 13, good}, {50, 1, good}, {50, 12 | 1<<32, good}, {50, ^uint64(0), good},
			{51, 12, good}, {51, 0, good}, {51, 7, good}, {51, 99, good}, {51, 1, nil},
			{50, 12, spoilt(32, 0)}, // the magic of the ping itself
		}
		for _, m := range malformed {
			x.send(server, m.portal, m.bits, m.b)
		}
		if r := x.answers(); r != nil {
			t.Errorf("answered: %x", r)
		}
		got := server.Counters()
		n := uint32(len(malformed))
		if got.Received-before.Received != n || got.Dropped-before.Dropped != n || got.Errors != before.Errors {
			t.Errorf("of %d: before %+v, after %+v", n, before, got)
		}
		if r := x.ask(server, &ping); len(r) != 1 {
			t.Errorf("a good one: %d replies", len(r))
		}
	})
}

// Given requests of another version, when they come to any service, then the answer is EPROTO with the
// right type, and they have no effect.
//
// selftest 2.5 (2)
func TestVersions(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, con := s.serving(Config{})
		x := s.stranger(server, nil, 0)
		h := message.Header{Version: 2, Features: 1}
		id := uint64(strangeReply)
		for _, q := range []message.Request{
			&message.DebugRequest{Header: h, ReplyID: id},
			&message.MakeSessionRequest{Header: h, ReplyID: id, Session: message.SessionID{NID: 1}, Force: true},
			&message.RemoveSessionRequest{Header: h, ReplyID: id, Session: con.id},
			&message.BatchRequest{Header: h, ReplyID: id, Session: con.id},
			&message.TestRequest{Header: h, ReplyID: id, Session: con.id},
			&message.StatRequest{Header: h, ReplyID: id, Session: con.id},
			&message.JoinRequest{Header: h, ReplyID: id},
			&message.BRWRequest{Header: h, ReplyID: id, BulkID: strangeBulk, Op: message.BRWRead, Length: 8, Check: 1},
			&message.PingRequest{Header: h, ReplyID: id, Magic: message.PingMagic},
		} {
			typ, _ := q.Service().Request()
			r := x.ask(server, q)
			if len(r) != 1 {
				t.Fatalf("%v: %d replies", q.Service(), len(r))
			}
			got, status, err := message.ReplyStatus(r[0], typ.Reply())
			if err != nil || status != message.EPROTO || got != message.NewHeader(1) {
				t.Errorf("%v: %+v, %v, %v", q.Service(), got, status, err)
			}
		}
		if i, ok := server.Session(); !ok || i.ID != con.id {
			t.Errorf("%+v", i)
		}
	})
}

// Given invalid bulk requests, including those that would crash a kernel server, when they come, then the
// answer is a status, and no bulk is transferred.
//
// selftest 2.4, 5 (6), 6 (1)
func TestBadBulkRequests(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, _ := s.serving(Config{})
		bulk := make([]byte, 1<<20)
		x := s.stranger(server, bulk, portals.OpPut|portals.OpGet)
		const read, write = message.BRWRead, message.BRWWrite
		for _, test := range []struct {
			features   message.Features
			op, length uint32
			check      message.Check
			want       message.Status
		}{
			{1, 0, 8, 1, message.EINVAL}, {1, 3, 8, 1, message.EINVAL}, {1, ^uint32(0), 8, 1, message.EINVAL},
			{1, read, 0, 1, message.EINVAL}, {1, write, 0, 1, message.EINVAL},
			{1, read, 1<<20 + 1, 1, message.EINVAL}, {1, write, ^uint32(0), 3, message.EINVAL},
			{1, read, 8, 0, message.EINVAL}, {1, read, 8, 5, message.EINVAL},
			{1, read, 4, 3, message.EINVAL}, {1, write, 12, 2, message.EINVAL}, {1, write, 1, 3, message.EINVAL},
			{0, read, 8, 1, message.EINVAL}, {0, read, 4097, 1, message.EINVAL},
			{2, read, 8, 1, message.EPROTO}, {^message.Features(0), write, 8, 3, message.EPROTO},
		} {
			r := x.ask(server, &message.BRWRequest{
				Header: message.NewHeader(test.features), ReplyID: strangeReply, BulkID: strangeBulk,
				Op: test.op, Length: test.length, Check: test.check,
			})
			if len(r) != 1 {
				t.Fatalf("%+v: %d replies", test, len(r))
			}
			if _, status, err := message.ReplyStatus(r[0], message.TypeBRWRequest.Reply()); err != nil || status != test.want {
				t.Errorf("%+v: %v, %v", test, status, err)
			}
		}
		r := x.ask(server, &message.PingRequest{Header: message.NewHeader(2), ReplyID: strangeReply, Magic: message.PingMagic})
		if len(r) != 1 {
			t.Fatalf("ping: %d replies", len(r))
		}
		if _, status, _ := message.ReplyStatus(r[0], message.TypePingRequest.Reply()); status != message.EPROTO {
			t.Errorf("ping with unknown features: %v", status)
		}
		if c := server.Counters(); c.BulkGet+c.BulkPut != 0 || c.Dropped != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// Given a client of the other byte order, when it pings, writes and reads, then its pattern is accepted,
// and it receives ours. A wrong pattern is answered with EBADMSG.
//
// selftest 1.1, 5 (2)-(3), 11 (3)
func TestOtherByteOrder(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, _ := s.serving(Config{})
		bulk := make([]byte, 8192)
		x := s.stranger(server, bulk, portals.OpPut|portals.OpGet)
		h := message.Header{Order: message.BigEndian, Version: 1, Features: 1}
		r := x.ask(server, &message.PingRequest{Header: h, ReplyID: strangeReply, Magic: message.PingMagic, Seq: 0x01020304})
		var got message.PingReply
		if len(r) != 1 || got.Decode(r[0]) != nil {
			t.Fatalf("ping: %x", r)
		}
		want := message.PingReply{Header: message.NewHeader(1), Magic: message.PingMagic, Seq: 0x01020304}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, test := range []struct {
			op    uint32
			check message.Check
			order message.Order // of the pattern in the client's memory
			want  message.Status
		}{
			{message.BRWWrite, message.CheckFull, message.BigEndian, message.OK},
			{message.BRWWrite, message.CheckSimple, message.BigEndian, message.OK},
			{message.BRWWrite, message.CheckFull, message.LittleEndian, message.EBADMSG},
			{message.BRWWrite, message.CheckSimple, message.LittleEndian, message.EBADMSG},
			{message.BRWWrite, message.CheckNone, message.LittleEndian, message.OK},
			{message.BRWRead, message.CheckFull, message.BigEndian, message.OK},
		} {
			pattern.Fill(bulk, test.order)
			r := x.ask(server, &message.BRWRequest{
				Header: h, ReplyID: strangeReply, BulkID: strangeBulk, Op: test.op, Length: 8192, Check: test.check,
			})
			if len(r) != 1 {
				t.Fatalf("%+v: %d replies", test, len(r))
			}
			if _, status, err := message.ReplyStatus(r[0], message.TypeBRWRequest.Reply()); err != nil || status != test.want {
				t.Errorf("%+v: %v, %v", test, status, err)
			}
			if test.op == message.BRWRead {
				if err := pattern.Check(bulk, message.CheckFull, message.LittleEndian); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// Given a node without a server test, when test requests come, then they are dropped and do not hold up
// what is behind them.
//
// selftest 1 (2), 4.8 (6)
func TestTestRequestsWithoutATest(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server := s.player("server", "10.0.0.3").agent(Config{})
		x := s.stranger(server, nil, 0)
		con := x.console(1)
		ping := message.PingRequest{Header: message.NewHeader(1), ReplyID: strangeReply, Magic: message.PingMagic}
		for range 3 * baseBuffers {
			x.send(server, message.TestPortal, uint64(message.ServicePing), ping.Append(nil))
		}
		con.make(server, false)
		if r := x.ask(server, &ping); len(r) != 0 {
			t.Errorf("%d replies", len(r))
		}
		if status := con.add(server, con.test(1)); status != message.OK {
			t.Fatal(status)
		}
		if r := x.ask(server, &ping); len(r) != 1 {
			t.Errorf("%d replies with a test", len(r))
		}
		con.remove(server)
		if r := x.ask(server, &ping); len(r) != 0 {
			t.Errorf("%d replies after the session", len(r))
		}
		if _, n := server.load(); n != baseBuffers {
			t.Errorf("%d buffers posted", n)
		}
	})
}

// Given a client that sends many more requests than the server may serve at a time, and that provides no
// data, then memory and requests stay within limits, another client is served meanwhile or after LNet's
// timeout, and finally everything is released.
//
// selftest 1 (1), 3 server (2)-(4)
func TestGreedyClient(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		const most = 300
		server, con := s.serving(Config{MaxServing: most, ServerMemory: 4 << 20})
		x := s.stranger(server, nil, 0)
		q := message.BRWRequest{
			Header: message.NewHeader(1), ReplyID: 0x9999, BulkID: 0x8888, // there are no such buffers
			Op: message.BRWWrite, Length: 1 << 20, Check: message.CheckFull,
		}
		b := q.Append(nil)
		for range 1000 {
			h, err := x.node.Bind(portals.MD{Bytes: b, Threshold: 1, Unlink: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.node.Put(h, server.id, node.PutOptions{Portal: message.TestPortal, MatchBits: 11}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		busy, posted := server.load()
		if busy > most || busy == 0 || posted > 1 {
			t.Errorf("%d busy, %d posted", busy, posted)
		}
		if n := inUse(server.serverMemory); n > 4<<20 {
			t.Errorf("%d bytes in use", n)
		}
		if r := con.debug(server); r.Status != message.OK {
			t.Errorf("the framework: %v", r.Status)
		}
		con.remove(server)
		time.Sleep(time.Minute)
		busy, _ = server.load()
		if c := server.Counters(); busy != 0 || c.Dropped != 1000 {
			t.Errorf("%d busy, %+v", busy, c)
		}
	})
}

// Given a request through 0@lo, when it is served, then the node answers itself.
//
// selftest 5 (1), 6 (2)
func TestLoopback(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.player("all", "10.0.0.1").agent(Config{})
		for k, id := range []lnet.ProcessID{p.id, {NID: lnet.LoopbackNID, PID: lnet.PIDLustre}} {
			self := *p
			self.id = id
			con := p.console(int64(k))
			for batch, q := range []*message.TestRequest{
				con.test(0), brw(con.test(1), message.BRWRead, 1<<20, message.CheckFull),
				brw(con.test(2), message.BRWWrite, 1<<20, message.CheckFull),
			} {
				loop := testenv.Fewer(200)
				q.Loop, q.Concurrency, q.Batch = uint32(loop), 4, uint64(batch)
				if batch == 0 {
					con.make(&self, true)
				}
				for _, status := range []message.Status{con.add(&self, q), con.add(&self, q, &self)} {
					if status != message.OK {
						t.Fatal(status)
					}
				}
				con.run(&self, q.Batch)
				con.idle(&self, q.Batch)
				h, _ := p.Latency(q.Batch, 2)
				if r := con.stat(&self); r.Framework.BRWErrors+r.Framework.PingErrors != 0 || h.Count() != uint64(4*loop) {
					t.Errorf("%v: %d RPCs, %+v, %+v", id, h.Count(), r.Framework, r.RPC)
				}
			}
		}
	})
}
