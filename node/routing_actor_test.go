package node_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// actor is a node that the test controls completely: whether it answers pings, and with
// what content. It acknowledges PUTs and records the messages that arrive.
type actor struct {
	fabric *fabric
	ports  []*port

	mu     sync.Mutex
	info   lnet.PingInfo
	silent bool // receives messages but answers none
	came   []arrived
}

// arrived is a message that an actor received.
type arrived struct {
	at      time.Time
	over    lnet.NID // the actor's NID
	from    lnet.NID // the neighbour
	header  lnet.Header
	payload []byte
}

// stage is one port of an actor.
type stage struct {
	actor *actor
	port  *port
}

// cue is a message that an actor receives or sends.
type cue struct {
	tx      lnd.Tx
	stage   *stage
	payload []byte
	header  lnet.Header
	from    lnet.ProcessID
}

// newActor creates an actor that announces itself as a multi-rail router.
func newActor(t testing.TB, f *fabric, nids ...string) *actor {
	t.Helper()
	a := &actor{fabric: f}
	a.info = lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatDiscovery, PID: lnet.PIDLustre, Seq: 1,
	}
	for _, s := range nids {
		p := &port{fabric: f, nid: parseNID(t, s)}
		p.upper = &stage{actor: a, port: p}
		a.ports = append(a.ports, p)
		a.info.NIs = append(a.info.NIs, lnet.PingNI{NID: p.nid, Status: lnet.StatusUp})
		f.mu.Lock()
		f.ports[p.nid] = p
		f.mu.Unlock()
	}
	return a
}

// tell changes the actor's ping info.
func (a *actor) tell(change func(info *lnet.PingInfo)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.info.NIs = slices.Clone(a.info.NIs)
	change(&a.info)
}

func (a *actor) set(flag *bool, on bool) {
	a.mu.Lock()
	*flag = on
	a.mu.Unlock()
}

// take returns the messages that have arrived since the last take.
func (a *actor) take() []arrived {
	a.mu.Lock()
	defer a.mu.Unlock()
	came := a.came
	a.came = nil
	return came
}

// pings returns the pings among the messages, pushes the pushes.
func pings(came []arrived) []arrived  { return onPortalZero(came, lnet.MsgGet) }
func pushes(came []arrived) []arrived { return onPortalZero(came, lnet.MsgPut) }

func onPortalZero(came []arrived, t lnet.MsgType) (out []arrived) {
	for _, a := range came {
		if a.header.Type == t && a.header.Portal == lnet.ReservedPortal {
			out = append(out, a)
		}
	}
	return out
}

// pushBy sends the actor's ping info over one of its ports.
func (a *actor) pushBy(t testing.TB, port int, to string) {
	t.Helper()
	a.mu.Lock()
	b := a.info.Append(nil, binary.LittleEndian)
	a.mu.Unlock()
	a.send(port, parseNID(t, to), lnet.Header{
		Src: a.ports[port].nid, Dest: parseNID(t, to), Type: lnet.MsgPut, MatchBits: lnet.PingMatchBits, Handle: lnet.NoHandle,
	}, b)
}

// send sends a message over one of the ports to a neighbour.
func (a *actor) send(port int, hop lnet.NID, h lnet.Header, payload []byte) {
	h.SrcPID, h.DestPID, h.PayloadLength = lnet.PIDLustre, lnet.PIDLustre, uint32(len(payload))
	c := &cue{}
	c.tx = lnd.Tx{Header: h, To: lnet.ProcessID{NID: hop, PID: lnet.PIDLustre}, Payload: memory.Of(payload), Done: c}
	a.ports[port].Send(&c.tx)
}

func (*stage) PeerDown(lnd.PeerDown)           {}
func (*stage) LNDTimeout() time.Duration       { return 0 }
func (*stage) Vouched(lnet.NID) bool           { return false }
func (*stage) LinkChanged(lnd.LinkState)       {}
func (*stage) Withdrawn(*lnd.Rx)               {}
func (*stage) PeerRestarted(lnet.NID)          {}
func (*cue) Sent(*lnd.Tx, error)               {}
func (*stage) PeerStalled(lnet.NID, time.Time) {}
func (*stage) ConnectionsLost(lnet.NID)        {}

func (s *stage) Arrived(rx *lnd.Rx) error {
	c := &cue{stage: s, payload: make([]byte, rx.Header.PayloadLength), header: rx.Header, from: rx.From}
	s.port.Receive(rx, lnd.Placement{Memory: memory.Of(c.payload), Done: c})
	return nil
}

// Received sends the answer.
func (c *cue) Received(*lnd.Rx, error) {
	a, h := c.stage.actor, &c.header
	a.mu.Lock()
	a.came = append(a.came, arrived{at: time.Now(), over: c.stage.port.nid, from: c.from.NID, header: *h, payload: c.payload})
	ping := h.Portal == lnet.ReservedPortal && h.Type == lnet.MsgGet
	answers := !a.silent
	info := a.info.Append(nil, binary.LittleEndian)
	a.mu.Unlock()
	c.tx.Header = lnet.Header{
		Dest: h.Src, Src: h.Dest, DestPID: h.SrcPID, SrcPID: lnet.PIDLustre, Handle: h.Handle, MatchBits: h.MatchBits,
	}
	switch {
	case !answers, h.Handle == lnet.NoHandle:
		return
	case h.Type == lnet.MsgGet:
		b := make([]byte, h.Length)
		if ping {
			b = info[:min(len(info), int(h.Length))]
		}
		c.tx.Header.Type, c.tx.Header.MatchBits = lnet.MsgReply, 0
		c.tx.Header.PayloadLength = uint32(len(b))
		c.tx.Payload = memory.Of(b)
	case h.Type == lnet.MsgPut:
		c.tx.Header.Type, c.tx.Header.Length = lnet.MsgAck, h.PayloadLength
	default:
		return
	}
	c.tx.To, c.tx.Done = lnet.ProcessID{NID: c.from.NID, PID: lnet.PIDLustre}, c
	c.stage.port.Send(&c.tx)
}

// addRoute adds a route and waits until the gateway has been checked.
func addRoute(t testing.TB, n *node.Node, net, gateway string, o node.RouteOptions) {
	t.Helper()
	if err := n.Admin().AddRoute(context.Background(), parseNet(t, net), parseNID(t, gateway), o); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// routeTo returns the only route to a net.
func routeTo(t testing.TB, n *node.Node, net string) node.RouteInfo {
	t.Helper()
	var found []node.RouteInfo
	for _, r := range n.Admin().Routes() {
		if r.Net == parseNet(t, net) {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("routes to %s: %+v; want one", net, found)
	}
	return found[0]
}

// peerNI returns what a node knows about a NID of another one.
func peerNI(t testing.TB, n *node.Node, nid string) node.PeerNIInfo {
	t.Helper()
	p, ok := n.Peer(parseNID(t, nid))
	if ok {
		for _, i := range p.NIs {
			if i.NID == parseNID(t, nid) {
				return i
			}
		}
	}
	t.Fatalf("no peer NI %s", nid)
	return node.PeerNIInfo{}
}

// statuses returns the status of each NI in a node's ping info.
func statuses(n *node.Node) map[string]lnet.NIStatus {
	out := map[string]lnet.NIStatus{}
	for _, i := range n.PingInfo().NIs {
		out[i.NID.String()] = i.Status
	}
	return out
}

// sound checks that no message is under way or waiting in a node, and that all credits
// and buffers were released.
func sound(t testing.TB, step string, n *node.Node) {
	t.Helper()
	if c := n.Admin().Counters(); c.Committed != 0 {
		t.Errorf("%s: %d messages are committed", step, c.Committed)
	}
	whole := func(what string, c node.CreditInfo) {
		if c.Available != c.Max {
			t.Errorf("%s: %s: %+v", step, what, c)
		}
	}
	for _, i := range n.NIs() {
		whole("credits of "+i.NID.String(), i.Credits)
	}
	for _, p := range n.Peers() {
		for _, i := range p.NIs {
			whole("credits of "+i.NID.String(), i.Credits)
			whole("router credits of "+i.NID.String(), i.RouterCredits)
			if i.QueuedBytes != 0 {
				t.Errorf("%s: %s: %d bytes queued", step, i.NID, i.QueuedBytes)
			}
		}
	}
	for k, p := range n.Admin().Routing().Pools {
		if p.Credits != p.Buffers {
			t.Errorf("%s: pool %d: %+v", step, k, p)
		}
	}
}

// getMD sends a GET for a page, whose events go to a queue.
func getMD(t testing.TB, n *node.Node, q *node.EventQueue, to lnet.ProcessID) {
	t.Helper()
	h := bind(t, n, portals.MD{Bytes: make([]byte, 4096), Threshold: 2, Unlink: true, Handler: q, Options: portals.Truncate})
	if err := n.Get(h, to, node.GetOptions{Portal: 4}); err != nil {
		t.Fatal(err)
	}
}

// replies counts the REPLYs that have arrived.
func replies(q *node.EventQueue) (n int) {
	var e portals.Event
	for q.TryNext(&e) {
		if e.Type == portals.EventReply && e.Err == nil {
			n++
		}
	}
	return n
}
