package fuzz

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// nodeVictim is a whole node, with a well-behaved peer beside the stranger.
type nodeVictim struct {
	*stranger
	node, friend *node.Node
	driver       *socklnd.Driver
	closers      []func(context.Context) error
	drivers      []*socklnd.Driver
	operations   []*strangerOperation
}

// strangerOperation is a PUT or GET of the victim, and the number of its final events.
type strangerOperation struct {
	mu              sync.Mutex
	handle          lnet.Handle
	refused         bool // the call failed, so no event follows
	sends, unlinked int
	answers         int
}

// HandleEvent implements portals.Handler.
func (o *strangerOperation) HandleEvent(e *portals.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e.Type {
	case portals.EventSend:
		o.sends++
	case portals.EventAck, portals.EventReply:
		o.answers++
	}
	if e.Unlinked {
		o.unlinked++
	}
}

func newNodeVictim(s *stranger) strangerVictim {
	v := &nodeVictim{stranger: s}
	v.node, v.driver = v.newNode("victim", victimAddr)
	v.friend, _ = v.newNode("friend", friendAddr)
	for _, n := range []*node.Node{v.node, v.friend} {
		_, err := n.Attach(portals.Entry{Portal: openPortal, IgnoreBits: ^uint64(0)}, portals.MD{
			Bytes: make([]byte, 1<<16), Threshold: portals.Unlimited,
			Options: portals.OpPut | portals.OpGet | portals.Truncate | portals.ManageRemote,
		})
		if err != nil {
			s.Fatal(err)
		}
	}
	return v
}

func (v *nodeVictim) newNode(name string, a netip.Addr) (*node.Node, *socklnd.Driver) {
	d := newVictimDriver(v.stranger, name, a)
	v.drivers = append(v.drivers, d)
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	n, err := node.New(node.Config{Parameters: &p, Seed: 1})
	if err != nil {
		v.Fatal(err)
	}
	v.closers = append(v.closers, n.Close)
	addNI(v.T, n, d, tcpNID(a))
	return n, d
}

// newVictimDriver returns a driver on a host of the stranger's fabric.
func newVictimDriver(s *stranger, name string, a netip.Addr) *socklnd.Driver {
	c := socklnd.DefaultConfig()
	c.Accept = socklnd.AcceptAll
	d, err := simlnd.NewDriver(s.fabric.Host(name, a.String()), c)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

func addNI(t *testing.T, n *node.Node, d lnd.Driver, nid lnet.NID) {
	t.Helper()
	if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		t.Fatal(err)
	}
}

// ask implements strangerVictim.
func (v *nodeVictim) ask(to lnet.ProcessID, size int, b byte) {
	o := &strangerOperation{}
	d := portals.MD{
		Bytes: make([]byte, size), Threshold: 1, Unlink: true, Handler: o,
		Options: portals.TrackResponse | portals.Truncate,
	}
	if b&3 != 0 {
		d.Threshold = 2
	}
	h, err := v.node.Bind(d)
	if err != nil {
		v.Fatal(err)
	}
	o.handle = h
	v.operations = append(v.operations, o)
	v.handles = append(v.handles, h)
	switch b & 3 {
	case 0, 1:
		err = v.node.Put(h, to, node.PutOptions{Portal: openPortal, Ack: b&3 == 1})
	default:
		err = v.node.Get(h, to, node.GetOptions{Portal: openPortal})
	}
	if err != nil {
		o.refused = true
		_ = v.node.Unlink(h) // it is there
	}
}

// restart implements strangerVictim.
func (v *nodeVictim) restart(pause time.Duration) {
	if err := v.node.RemoveNI(context.Background(), v.victimID.NID); err != nil {
		v.Fatal(err)
	}
	v.await(pause)
	addNI(v.T, v.node, v.driver, v.victimID.NID)
}

// setLazy implements strangerVictim.
func (v *nodeVictim) setLazy(b byte) {
	switch b & 3 {
	case 0, 1:
		_ = v.node.SetLazy(lazyPortal) // there is such a portal
	case 2:
		_ = v.node.ClearLazy(lazyPortal)
	default:
		_, err := v.node.Attach(portals.Entry{Portal: lazyPortal, IgnoreBits: ^uint64(0)}, portals.MD{
			Bytes: make([]byte, 4096), Threshold: 2, Unlink: true, Options: portals.OpPut | portals.Truncate,
		})
		if err != nil {
			v.Fatal(err)
		}
	}
}

// checkWorks makes the victim and its friend exchange messages, which must succeed whatever the stranger
// does.
func (v *nodeVictim) checkWorks() {
	ctx, cancel := context.WithTimeout(context.Background(), friendPatience)
	defer cancel()
	b := []byte("are you well?")
	for _, p := range []struct {
		from *node.Node
		to   lnet.ProcessID
	}{{v.node, v.friendID}, {v.friend, v.victimID}} {
		if n, err := p.from.PutWait(ctx, b, p.to, node.PutOptions{Portal: openPortal, Ack: true}); err != nil || n != len(b) {
			v.Fatalf("PUT to %s beside the stranger: %d bytes, %v", p.to, n, err)
		}
		if n, err := p.from.GetWait(ctx, b, p.to, node.GetOptions{Portal: openPortal}); err != nil || n != len(b) {
			v.Fatalf("GET from %s beside the stranger: %d bytes, %v", p.to, n, err)
		}
	}
}

// check implements strangerVictim.
func (v *nodeVictim) check() {
	v.checkWorks()
	v.await(longEnough)
	v.checkWorks()
	synctest.Wait() // the event of its last answer must be delivered
	v.checkOperations()
	v.checkCredits()
	// The driver has the friend as a peer, and perhaps itself: a stranger that claims to be the victim
	// gets an answer, once for both ends of the connections.
	checkDriver(v.stranger, v.node.NIs()[1].Driver, v.node.Admin().Refusals(), 2, 3+2*3)
}

func (v *nodeVictim) close() {
	for _, close := range v.closers {
		if err := close(context.Background()); err != nil {
			v.Error(err)
		}
	}
	for _, d := range v.drivers {
		if err := d.Close(); err != nil {
			v.Error(err)
		}
	}
}

// checkOperations checks that each PUT and GET of the victim has ended once.
func (v *nodeVictim) checkOperations() {
	for k, o := range v.operations {
		o.mu.Lock()
		sends, unlinked := 1, 1
		if o.refused {
			sends = 0
		}
		if o.sends != sends || o.unlinked != unlinked || o.answers > 1 {
			v.Errorf("operation %d: %d SEND events, %d answers, %d ends; want %d, 1 at most, %d",
				k, o.sends, o.answers, o.unlinked, sends, unlinked)
		}
		o.mu.Unlock()
	}
}

// checkCredits checks that nothing is in progress at the victim.
func (v *nodeVictim) checkCredits() {
	if c := v.node.Admin().Counters(); c.Committed != 0 {
		v.Errorf("%d messages are under way", c.Committed)
	}
	for _, i := range v.node.NIs()[1:] {
		if i.Credits.Available != i.Credits.Max {
			v.Errorf("%s: credits %+v", i.NID, i.Credits)
		}
	}
	for _, p := range v.node.Peers() {
		for _, i := range p.NIs {
			if i.Credits.Available != i.Credits.Max || i.QueuedBytes != 0 {
				v.Errorf("peer %s: credits %+v, %d bytes queued", i.NID, i.Credits, i.QueuedBytes)
			}
		}
	}
}

// checkDriver checks that the victim's driver has at most peers peers with at most conns connections,
// that no message waits, and that each of the stranger's connection attempts was counted.
func checkDriver(s *stranger, list []lnd.Counter, refused lnd.RefusalCounts, peers, conns uint64) {
	s.Helper()
	counters := map[string]uint64{}
	for _, c := range list {
		counters[c.Name] = c.Value
	}
	if counters["peers"] > peers || counters["connections"] > conns || counters["pending_messages"] != 0 {
		s.Errorf("%d peers, %d connections, %d pending messages are left",
			counters["peers"], counters["connections"], counters["pending_messages"])
	}
	if counted := counters["accepts_total"] + refused.Total(); !s.renewed && counted < s.dialled {
		s.Errorf("%d of %d callers were accepted or refused", counted, s.dialled)
	}
}
