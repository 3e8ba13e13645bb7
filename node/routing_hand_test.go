package node_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// hand is an interface controlled by the test: messages arrive when the test delivers
// them, and sent messages wait until the test completes them.
type hand struct {
	nid      lnet.NID
	tunables lnd.Tunables
	upper    lnd.Upper

	mu       sync.Mutex
	out      []*lnd.Tx
	arrivals []*arrival // without a placement yet
	closed   bool
}

// arrival is a message that arrived at a hand.
type arrival struct {
	hand    *hand
	rx      lnd.Rx
	payload []byte

	// hand.mu guards the fields below.
	answers int  // calls of Receive
	taken   bool // received into memory
	dropped bool
	gone    bool // the connection is lost
}

// noTimeout stands for a peer timeout of 0; for hands, 0 means the default.
const noTimeout = -1

// handDriver opens hands.
type handDriver struct{ hand *hand }

func (d *handDriver) Type() lnet.NetType { return lnet.TypeTCP }

func (d *handDriver) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	h := d.hand
	h.nid, h.upper, h.tunables = c.NID, c.Upper, c.Tunables
	if h.tunables.PeerCredits == 0 {
		h.tunables.PeerCredits = 8
	}
	if h.tunables.Credits == 0 {
		h.tunables.Credits = 256
	}
	switch h.tunables.PeerTimeout {
	case 0:
		h.tunables.PeerTimeout = 180 * time.Second
	case noTimeout:
		h.tunables.PeerTimeout = 0
	}
	return h, nil
}

func (h *hand) NID() lnet.NID               { return h.nid }
func (h *hand) Device() string              { return "hand-" + h.nid.String() }
func (h *hand) Tunables() lnd.Tunables      { return h.tunables }
func (h *hand) Options() lnd.Values         { return nil }
func (h *hand) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }

func (h *hand) Counters() []lnd.Counter { return nil }
func (h *hand) Link() lnd.LinkState     { return lnd.LinkUp }
func (h *hand) Disconnect(lnet.NID)     {}

func (h *hand) LinkBack(lnet.NID) {}

func (h *hand) Recall(lnet.NID, func(*lnd.Tx) bool) {}
func (h *hand) LargeNIDs() bool                     { return true }
func (h *hand) Timeout() time.Duration              { return 50 * time.Second }

func (h *hand) Send(tx *lnd.Tx) {
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.out = append(h.out, tx)
	}
	h.mu.Unlock()
	if closed {
		tx.Done.Sent(tx, fault(lnd.StatusLocalAborted, tx.To.NID, lnd.ErrClosed))
	}
}

func (h *hand) Receive(rx *lnd.Rx, p lnd.Placement) {
	a := rx.Driver.(*arrival)
	h.mu.Lock()
	a.answers++
	gone := a.gone
	a.taken, a.dropped = p.Done != nil && !gone, p.Done == nil
	for k, o := range h.arrivals {
		if o == a {
			h.arrivals = append(h.arrivals[:k:k], h.arrivals[k+1:]...)
			break
		}
	}
	h.mu.Unlock()
	switch {
	case p.Done == nil:
	case gone:
		p.Done.Received(rx, fault(lnd.StatusRemoteError, rx.From.NID, lnd.ErrClosed))
	default:
		p.Memory.CopyFrom(a.payload)
		p.Done.Received(rx, nil)
	}
}

// Close ends everything as drivers do: sent messages fail, and those that wait for a
// placement are withdrawn.
func (h *hand) Close(context.Context) error {
	h.mu.Lock()
	out, arrivals := h.out, h.arrivals
	h.out, h.closed = nil, true
	h.mu.Unlock()
	for _, a := range arrivals {
		a.withdraw()
	}
	for _, tx := range out {
		tx.Done.Sent(tx, fault(lnd.StatusLocalAborted, tx.To.NID, lnd.ErrClosed))
	}
	return nil
}

// withdraw simulates the loss of the connection on which the message arrived.
func (a *arrival) withdraw() {
	a.hand.mu.Lock()
	a.gone = true
	a.hand.mu.Unlock()
	a.hand.upper.Withdrawn(&a.rx)
}

// withdrawOnce calls Withdrawn, unless it was called before or the message has its
// placement, which makes the call unnecessary.
func (a *arrival) withdrawOnce() {
	a.hand.mu.Lock()
	tell := !a.gone && a.answers == 0
	a.gone = a.gone || tell
	a.hand.mu.Unlock()
	if tell {
		a.hand.upper.Withdrawn(&a.rx)
	}
}

// was returns "waits", "taken" or "dropped", with a mark if it was answered twice.
func (a *arrival) was() string {
	a.hand.mu.Lock()
	defer a.hand.mu.Unlock()
	s := "waits"
	switch {
	case a.dropped:
		s = "dropped"
	case a.taken:
		s = "taken"
	case a.answers > 0:
		s = "failed"
	}
	if a.answers > 1 {
		s += "!"
	}
	return s
}

// were returns the results of messages.
func were(arrivals []*arrival) (out []string) {
	for _, a := range arrivals {
		out = append(out, a.was())
	}
	return out
}

// waiting returns the number of sent messages that are not completed.
func (h *hand) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.out)
}

// finish completes the oldest count sent messages with err.
func (h *hand) finish(count int, err error) (headers []lnet.Header) {
	h.mu.Lock()
	count = min(count, len(h.out))
	out := h.out[:count:count]
	h.out = h.out[count:]
	h.mu.Unlock()
	for _, tx := range out {
		headers = append(headers, tx.Header)
		tx.Done.Sent(tx, err)
	}
	return headers
}

// finishAll completes sent messages until none is under way.
func (h *hand) finishAll(err error) {
	for h.waiting() > 0 {
		h.finish(1, err)
		synctest.Wait()
	}
}

// handed is a router without recovery pings, with a hand on tcp and one on tcp1.
type handed struct {
	node      *node.Node
	near, far *hand
}

func newHanded(t testing.TB, b node.Buffers, tunables lnd.Tunables) *handed {
	t.Helper()
	p := static()
	return newHandedWith(t, p, b, tunables)
}

func newHandedWith(t testing.TB, p node.Parameters, b node.Buffers, tunables lnd.Tunables) *handed {
	t.Helper()
	r := &handed{near: &hand{}, far: &hand{}}
	r.node = newNode(t, node.Config{Parameters: &p, Routing: true, Buffers: b})
	addHand(t, r.node, r.near, gatewayNear, tunables)
	addHand(t, r.node, r.far, gatewayFar, tunables)
	return r
}

// addHand adds a hand to a node.
func addHand(t testing.TB, n *node.Node, h *hand, nid string, tunables lnd.Tunables) {
	t.Helper()
	c := lnd.Config{NID: parseNID(t, nid), Tunables: tunables}
	c.Net = c.NID.Net()
	if _, err := n.AddNI(context.Background(), &handDriver{h}, c); err != nil {
		t.Fatal(err)
	}
}

// message makes a message arrive at a hand.
func (h *hand) message(t testing.TB, typ lnet.MsgType, from, to string, size int) *arrival {
	t.Helper()
	return h.messageBy(t, typ, from, from, to, size)
}

func (h *hand) messageBy(t testing.TB, typ lnet.MsgType, by, from, to string, size int) *arrival {
	t.Helper()
	a := &arrival{hand: h, payload: bytes.Repeat([]byte{byte(size), 1, 2}, size)[:size]}
	a.rx = lnd.Rx{From: process(t, by), Driver: a}
	a.rx.Header = lnet.Header{
		Type: typ, Src: parseNID(t, from), Dest: parseNID(t, to), SrcPID: 7, DestPID: 9,
		Portal: 4, PayloadLength: uint32(size),
	}
	h.mu.Lock()
	h.arrivals = append(h.arrivals, a)
	h.mu.Unlock()
	if err := h.upper.Arrived(&a.rx); err != nil {
		t.Fatalf("message from %s to %s: %v", from, to, err)
	}
	return a
}

// puts makes PUTs arrive at the near hand for a node behind the far one.
func (r *handed) puts(t testing.TB, from string, count, size int) (out []*arrival) {
	t.Helper()
	for range count {
		out = append(out, r.near.message(t, lnet.MsgPut, from, behind, size))
	}
	return out
}

// pool returns one of the router's pools.
func (r *handed) pool(k int) node.PoolInfo { return r.node.Admin().Routing().Pools[k] }

// sound completes all sent messages and then calls the function sound.
func (r *handed) sound(t testing.TB, step string) {
	t.Helper()
	r.near.finishAll(nil)
	r.far.finishAll(nil)
	r.near.finishAll(nil)
	synctest.Wait()
	sound(t, step, r.node)
	for _, h := range []*hand{r.near, r.far} {
		h.mu.Lock()
		if len(h.arrivals) > 0 {
			t.Errorf("%s: %d messages have no placement", step, len(h.arrivals))
		}
		h.mu.Unlock()
	}
}

func (h *hand) Probe(lnet.NID) bool { return true }
