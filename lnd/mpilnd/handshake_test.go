package mpilnd

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// The first message to a peer is a VERSION_QUERY with the interface's versions, NID and PID. Nothing follows before the
// peer has answered. Then its answer is answered, and the messages that waited are sent.
//
// MPI-24, PT-1
func TestHandshake(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		m := s.put(10)
		q := s.next(protocol.Query)
		want := protocol.Block{
			Min: 1, Max: 1, ShortMax: 8192, Credits: 8, MaxPayload: lnet.MTU, Features: protocol.FeatureGet,
			NID: nid(0), PID: lnet.PIDLustre, Incarnation: q.Block.Incarnation,
		}
		if q.Block != want || q.To != 0 || q.Sequence != 0 || q.Block.Incarnation == 0 {
			t.Errorf("%+v, want the block %+v", q, want)
		}
		s.nothing()
		s.driver = q.From
		s.send(protocol.Message{Type: protocol.Reply})
		s.next(protocol.Reply)
		if got := s.next(protocol.Short); got.From != q.From || got.To != s.link || got.Sequence != 2 {
			t.Errorf("%+v", got)
		}
		if got := m.state(); got != "sent" {
			t.Error(got)
		}
	})
}

// If both sides ask at the same time, each answers the other, and there is one link.
//
// MPI-24, PT-1
func TestBothAsk(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		m := s.put(10)
		s.driver = s.next(protocol.Query).From
		driver := s.driver
		s.driver = 0
		s.send(protocol.Message{Type: protocol.Query})
		if r := s.next(protocol.Reply); r.From != driver || r.To != s.link {
			t.Errorf("%+v", r)
		}
		s.nothing()
		s.driver = driver
		s.send(protocol.Message{Type: protocol.Reply})
		s.next(protocol.Short)
		if got := m.state(); got != "sent" || s.upper.lost > 0 {
			t.Errorf("%s; links lost: %d", got, s.upper.lost)
		}
	})
}

// A peer with other versions, or with another NID or PID than its rank should have, is refused, and messages to it fail.
// So do they if the peer refuses.
//
// MPI-24
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *protocol.Block)
		reason protocol.Reason
	}{
		"versions": {func(k *protocol.Block) { k.Min, k.Max = 2, 3 }, protocol.BadVersion},
		"NID":      {func(k *protocol.Block) { k.NID = nid(5) }, protocol.WrongIdentity},
		"PID":      {func(k *protocol.Block) { k.PID = 77 }, protocol.WrongIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, fake.Options{}, nil, func(s *stage) {
				m := s.put(10)
				s.driver = s.next(protocol.Query).From
				k := s.block()
				c.change(&k)
				s.send(protocol.Message{Type: protocol.Reply, Block: k})
				if bye := s.next(protocol.Bye); bye.Reason != c.reason {
					t.Errorf("reason %s, want %s", bye.Reason, c.reason)
				}
				if got := m.state(); got != "remote error" || !errors.Is(m.err, lnd.ErrProtocol) || s.upper.down != 1 {
					t.Errorf("%s: %v; PeerDown %d times", got, m.err, s.upper.down)
				}
				refusals := s.i.Refusals()
				if refusals.Total() != 1 {
					t.Errorf("refusals: %v", refusals)
				}
				s.link, s.sequence = 2, 0
				m = s.put(10)
				s.driver = s.next(protocol.Query).From
				s.send(protocol.Message{Type: protocol.Bye, Reason: c.reason})
				if got := m.state(); got != "remote error" {
					t.Errorf("refused by the peer: %s", got)
				}
			})
		})
	}
}

// Messages of a link that does not exist are answered by BYE with the incarnation of the interface. Payloads that were
// sent for them are received, so that the peer's sends complete.
//
// MPI-22, PT-1
func TestStaleMessages(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.driver = 99
		payload := s.write(2, pattern(10_000))
		s.send(protocol.Message{Type: protocol.LargePut, Sequence: protocol.Unordered, Tag: 2, Length: 10_000, Header: header(lnet.MsgPut, 1, 0, 10_000)})
		if bye := s.next(protocol.Bye); bye.Reason != protocol.Stale || bye.From != 99 || bye.To != s.link || bye.Block.Incarnation == 0 {
			t.Errorf("%+v", bye)
		}
		if _, ok := s.await(payload); !ok {
			t.Error("the payload of a message that is discarded is not received")
		}
		if len(s.upper.arrived) > 0 {
			t.Error("the message has arrived")
		}
		s.driver = 0
		s.open()
		s.send(protocol.Message{Type: protocol.Bye, Reason: protocol.Stale, Block: func() protocol.Block {
			k := s.block()
			k.Incarnation++
			return k
		}()})
		s.nothing()
		if s.upper.restarted != 1 || s.upper.down != 1 {
			t.Errorf("restarts: %d, losses: %d; want 1 and 1", s.upper.restarted, s.upper.down)
		}
	})
}

// Messages that arrive when the interface is closed can be received nevertheless.
//
// MPI-4
func TestDrain(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		if err := s.i.Close(s.Context()); err != nil {
			t.Error(err)
		}
		var sends []uint64
		for range 3 {
			sends = append(sends, s.write(protocol.ShortTag, []byte("late")))
		}
		s.after = func() {
			if err := s.d.Drain(); err != nil {
				t.Error(err)
			}
		}
		s.d.Close()
		for _, id := range sends {
			if _, ok := s.await(id); !ok {
				t.Error("a message was not received")
			}
		}
	})
}

// A message that MPI reports before an earlier one waits for it.
func TestOrderOfReports(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		s.upper.place = func(*lnd.Rx) lnd.Placement { return lnd.Placement{} }
		for _, sequence := range []uint32{4, 2, 3} {
			h := header(lnet.MsgPut, 1, 0, 0)
			h.MatchBits = uint64(sequence)
			s.send(protocol.Message{Type: protocol.Short, Sequence: sequence, Header: h})
		}
		s.nothing()
		if n := len(s.upper.arrived); n != 3 {
			t.Errorf("%d messages have arrived, want 3", n)
		}
	})
}

// While tasks are to be done, MPI is polled without waiting. Otherwise the driver waits in MPI, until a message arrives,
// until it has to look at the time, or until another goroutine wakes it.
//
// MPI-25
func TestPolling(t *testing.T) {
	var polls polled
	play(t, fake.Options{}, func(c *Config) { polls.MPI, c.MPI = c.MPI, &polls }, func(s *stage) {
		s.open()
		idle := func() int {
			before := polls.waits.Load()
			time.Sleep(10 * time.Second)
			return int(polls.waits.Load() - before)
		}
		if n := idle(); n < 1 || n > 60 {
			t.Errorf("an idle driver waited %d times in 10 s, want about 50", n)
		}
		at := time.Now()
		s.put(10)
		s.next(protocol.Short)
		if took := time.Since(at); took > 0 {
			t.Errorf("the message took %v", took)
		}
		before := polls.others.Load()
		s.upper.place = func(m *lnd.Rx) lnd.Placement { return lnd.Placement{} } // within Arrived: a task for Run
		s.send(protocol.Message{Type: protocol.Short, Credits: 1, Header: header(lnet.MsgPut, 1, 0, 0)})
		idle()
		if n := polls.others.Load() - before; n > 1 {
			t.Errorf("%d polls did not wait, want at most 1", n)
		}
	})
}

// polled counts calls of Poll: those that may wait, and others.
type polled struct {
	boundary.MPI
	waits, others atomic.Int64
}

func (p *polled) Poll(done []boundary.Done, wait time.Duration) (int, error) {
	if wait > 0 {
		p.waits.Add(1)
	} else {
		p.others.Add(1)
	}
	return p.MPI.Poll(done, wait)
}

// A peer that is silent although something was sent to it is probed. If it does not answer within the LND timeout, its
// link ends. If it answers, its link stays, however long messages take.
func TestSilence(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		m := s.put(10_000)
		s.next(protocol.LargePut)
		for range 20 {
			s.next(protocol.Probe)
			s.send(protocol.Message{Type: protocol.ProbeReply})
		}
		if got := m.state(); got != "not complete" {
			t.Errorf("a large message whose payload was not received: %s", got)
		}
		s.next(protocol.Probe)
		time.Sleep(11 * time.Second)
		if got := m.state(); got != "network timeout" || s.upper.down != 1 || s.upper.lost != 1 {
			t.Errorf("%s; PeerDown %d times, ConnectionsLost %d times", got, s.upper.down, s.upper.lost)
		}
		s.next(protocol.Bye)
		if _, ok := s.await(s.receive(2, make([]byte, 10_000))); !ok { // lets the interface end without its requests
			t.Error("the payload was not sent")
		}
	})
}
