package lndtest

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Reentrancy: upcalls and completions may send. If each message makes another one be sent, this continues to
// the end of the chain, and the stack does not grow.
var reentrancyCases = []scenario{
	{name: "PingPong", nodes: 2, run: func(s *stage) { pingPong(s, 0, s.h.Chain) }},
	{name: "PingPongLarge", nodes: 2, run: func(s *stage) { pingPong(s, 10_000, s.h.Chain/50) }},
	{name: "SendFromSent", nodes: 2, run: func(s *stage) { sendFromSent(s, true) }},
	{name: "SendFromFailedSent", nodes: 2, run: func(s *stage) { sendFromSent(s, false) }},
	{name: "SendFromArrived", nodes: 2, run: sendFromArrived},
	{name: "DisconnectFromUpcalls", nodes: 2, run: disconnectFromUpcalls},
}

// maxDepth is more stack frames than any driver needs, and far fewer than a chain has messages. If a handler
// runs at this depth, the driver recurses.
const maxDepth = 200

// depth returns the number of stack frames, at most maxDepth+1.
func depth() int {
	var frames [maxDepth + 1]uintptr
	return runtime.Callers(1, frames[:])
}

// player is an upper that answers each message with another one, and counts the answers down. It keeps no
// records, so that it allocates nothing. Its fields are atomic, because only the network orders the steps of
// the two players. The race detector does not know this order.
type player struct {
	i       atomic.Value // lnd.Interface
	to      lnet.ProcessID
	tx      lnd.Tx
	scratch memory.Vector
	// free counts two events: the previous message was sent, and its answer has arrived. When it is 2, the next
	// message is sent.
	free    atomic.Int32
	left    atomic.Int64 // answers that are still to arrive
	final   atomic.Bool  // the last answer has arrived
	deepest atomic.Int64 // largest result of depth
	over    chan<- error // receives the result of the game
}

func newPlayer(from, to *node, size int, over chan<- error) *player {
	p := &player{to: to.id, over: over}
	p.tx.Header = lnet.Header{
		Type: lnet.MsgPut, Src: from.id.NID, Dest: to.id.NID, SrcPID: from.id.PID, DestPID: to.id.PID,
		Handle: lnet.NoHandle, PayloadLength: uint32(size),
	}
	p.tx.To = to.id
	p.tx.Payload = memory.Of(make([]byte, size))
	p.tx.Done = p
	p.scratch = memory.Of(make([]byte, size))
	p.free.Store(1)
	return p
}

func (p *player) open(s *stage, k int) {
	ctx, cancel := s.closeContext()
	defer cancel()
	i, err := s.w.Open(ctx, k, p)
	if err != nil {
		s.t.Fatalf("node %d: open: %v", k, err)
	}
	p.i.Store(i)
}

// down returns the player's interface.
func (p *player) down() lnd.Interface { return p.i.Load().(lnd.Interface) }

func (p *player) close(s *stage) {
	ctx, cancel := s.closeContext()
	defer cancel()
	if err := p.down().Close(ctx); err != nil {
		s.t.Error(err)
	}
}

// Arrived implements lnd.Upper. No peer sends before both players are open.
func (p *player) Arrived(m *lnd.Rx) error {
	_ = p.left.Load() // shows the race detector that scratch is no longer used for the message before
	p.down().Receive(m, lnd.Placement{Memory: p.scratch.Slice(0, int(m.Header.PayloadLength)), Done: p})
	return nil
}

// Received implements lnd.Receiver.
func (p *player) Received(_ *lnd.Rx, err error) {
	if err != nil {
		p.end(err)
		return
	}
	p.deepest.Store(max(p.deepest.Load(), int64(depth())))
	p.final.Store(p.left.Add(-1) < 0)
	p.step()
}

// Sent implements lnd.Sender.
func (p *player) Sent(_ *lnd.Tx, err error) {
	if err != nil {
		p.end(err)
		return
	}
	p.step()
}

// step is called when a message was sent or an answer has arrived. If both have happened, it sends the next
// message.
func (p *player) step() {
	if p.free.Add(1) < 2 {
		return
	}
	if p.final.Load() {
		p.free.Store(1) // nothing is in progress
		p.end(nil)
		return
	}
	p.free.Store(0)
	p.down().Send(&p.tx)
}

// end ends the game with a result.
func (p *player) end(err error) {
	select {
	case p.over <- err:
	default:
	}
}

func (p *player) Withdrawn(*lnd.Rx)               {}
func (p *player) PeerDown(lnd.PeerDown)           {}
func (p *player) PeerRestarted(lnet.NID)          {}
func (p *player) LNDTimeout() time.Duration       { return 0 }
func (p *player) Vouched(lnet.NID) bool           { return false }
func (p *player) LinkChanged(lnd.LinkState)       {}
func (p *player) PeerStalled(lnet.NID, time.Time) {}
func (p *player) ConnectionsLost(lnet.NID)        {}

// newGame opens the interfaces of two players. over receives the result of each call of play.
func newGame(s *stage, size int) (a, b *player, over chan error) {
	over = make(chan error, 2)
	a = newPlayer(s.nodes[0], s.nodes[1], size, over)
	b = newPlayer(s.nodes[1], s.nodes[0], size, over)
	a.open(s, 0)
	b.open(s, 1)
	return a, b, over
}

// play makes a and b exchange length messages, and returns the first error.
func play(a, b *player, over <-chan error, length int) error {
	a.left.Store(int64(length))
	b.left.Store(int64(length / 2))
	a.step()
	return <-over
}

func pingPong(s *stage, size, length int) {
	a, b, over := newGame(s, size)
	if err := play(a, b, over, length); err != nil {
		s.t.Error(err)
	}
	a.close(s)
	b.close(s)
	if d := max(a.deepest.Load(), b.deepest.Load()); d >= maxDepth {
		s.t.Errorf("the stack was %d frames deep or more", d)
	}
}

// chain is a sender that sends each message from the completion of the previous one.
type chain struct {
	i       lnd.Interface
	want    bool // success is expected
	left    int
	deepest int
	over    chan error
}

func (c *chain) Sent(m *lnd.Tx, err error) {
	c.deepest = max(c.deepest, depth())
	c.left--
	switch {
	case c.want != (err == nil):
		c.over <- fmt.Errorf("with %d to go: completed with %w", c.left, err)
	case c.left == 0:
		c.over <- nil
	default:
		c.i.Send(m)
	}
}

// sendFromSent sends each message from the completion of the previous one: to a peer that drops the messages,
// or to one that cannot be reached.
func sendFromSent(s *stage, reachable bool) {
	n := s.open(1)
	c := &chain{want: reachable, left: s.h.Chain, over: make(chan error, 1)}
	if reachable {
		s.nodes[1].open()
		s.awaitWorking(n[0], s.nodes[1])
		s.nodes[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
			delete(a.n.arrivals, a.id()) // too many to keep
			a.n.order = nil
			return lnd.Placement{}, false, nil
		})
	} else {
		// The first message fails after a whole attempt to connect. Later ones fail immediately or in batches.
		s.awaitComplete(n[0].puts(s.nodes[1], 1, 0))
	}
	o := n[0].message(lnet.MsgPut, s.nodes[1], 0, 1)
	o.Done = c
	c.i = n[0].i
	c.i.Send(&o.Tx)
	if err := <-c.over; err != nil {
		s.t.Error(err)
	}
	if c.deepest >= maxDepth {
		s.t.Errorf("the stack was %d frames deep or more", c.deepest)
	}
}

// sendFromArrived sends an answer from within the upcall Arrived, before the placement.
func sendFromArrived(s *stage) {
	n := s.open(2)
	for _, size := range []int{10, 5000} {
		var answers []*outgoing
		n[1].setHook(func(*arrival) {
			o := n[1].put(n[0], size)
			s.note(func() { answers = append(answers, o) })
		})
		out := n[0].puts(n[1], 100, size)
		s.awaitDelivered(n[1], out...)
		n[1].setHook(nil)
		s.awaitDelivered(n[0], answers...)
		if len(answers) != len(out) {
			s.t.Errorf("%d answers to %d messages", len(answers), len(out))
		}
	}
}

// disconnectFromUpcalls calls Disconnect from an upcall and from a completion.
func disconnectFromUpcalls(s *stage) {
	n := s.open(2)
	done := make(chan struct{}, 1)
	o := n[0].message(lnet.MsgPut, n[1], 10, 1)
	o.Done = senderFunc(func(*lnd.Tx, error) {
		_ = n[0].i.Counters()
		n[0].i.Disconnect(n[1].id.NID)
		done <- struct{}{}
	})
	n[0].i.Send(&o.Tx)
	<-done
	s.awaitWorking(n[0], n[1])

	n[1].setHook(func(a *arrival) {
		_ = n[1].i.Counters()
		n[1].i.Disconnect(a.from.NID)
	})
	s.awaitComplete(n[0].puts(n[1], 10, 3000))
	n[1].setHook(nil)
	s.awaitWorking(n[0], n[1])
}
