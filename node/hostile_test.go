package node_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a neighbour whose header has no source, a wildcard source or this process as its
// source, when the message arrives, then it is a protocol error, even if an entry for
// that source would match.
func TestForgedSourcesAreRefused(t *testing.T) {
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	from := parseNID(t, "10.0.0.66@tcp")
	var r recorder
	attach(t, n, portals.Entry{Portal: 1, Match: loID}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet, Handler: &r})
	for name, src := range map[string]lnet.NID{"zero": {}, "any": lnet.AnyNID, "0@lo": lnet.LoopbackNID} {
		for _, typ := range []lnet.MsgType{lnet.MsgPut, lnet.MsgGet, lnet.MsgAck, lnet.MsgReply} {
			h := lnet.Header{Type: typ, Src: src, Portal: 1, Handle: lnet.Handle{Interface: 1, Object: 1}}
			_, err := q.announce(from, h, false)
			if calls := q.take(); !errors.Is(err, lnd.ErrProtocol) || calls != nil {
				t.Errorf("%s from %s: %v, %d calls of Receive; want a protocol error and none", typ, name, err, len(calls))
			}
		}
	}
	if e := r.take(); e != nil || len(n.Peers()) != 0 || n.Admin().Counters().Committed != 0 {
		t.Errorf("events %v, peers %+v, %d messages; want none of them", e, n.Peers(), n.Admin().Counters().Committed)
	}
}

// Given a multi-rail peer with a NID on a net that this node is not on, when a connection
// on our net claims that NID, then that is a protocol error, because an answer could
// never be sent.
func TestNeighbourOfAnotherNetIsRefused(t *testing.T) {
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	other := parseNID(t, "10.9.9.9@tcp7")
	configure(t, n, parseNID(t, "10.0.0.7@tcp"), other)
	err := q.arrive(other, lnet.Header{
		Type: lnet.MsgGet, MatchBits: lnet.PingMatchBits, Length: 272, Handle: lnet.Handle{Interface: 1, Object: 1}}, false)
	for _, c := range q.take() {
		c.complete(nil)
	}
	if !errors.Is(err, lnd.ErrProtocol) || n.Admin().Counters().Committed != 0 {
		t.Errorf("%v, %d messages under way; want a protocol error and none", err, n.Admin().Counters().Committed)
	}
}

// Given portal 0, which is lazy, when a PUT arrives that is not a push, then it is
// dropped at once, because no entry for it can ever be attached.
func TestReservedPortalKeepsNothingButPushes(t *testing.T) {
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	for _, bits := range []uint64{0, lnet.PingMatchBits + 1, ^uint64(0)} {
		h := lnet.Header{Type: lnet.MsgPut, MatchBits: bits, Handle: lnet.NoHandle, PayloadLength: 4}
		if err := q.arrive(parseNID(t, "10.0.0.66@tcp"), h, false); err != nil {
			t.Fatal(err)
		}
		if calls := q.take(); len(calls) != 1 || calls[0].place.Done != nil {
			t.Errorf("bits %#x: placements %+v, want it dropped", bits, calls)
		}
	}
	if c := n.Admin().Counters(); c.Dropped != 3 || c.Committed != 0 {
		t.Errorf("%d dropped, %d under way; want 3, 0", c.Dropped, c.Committed)
	}
}

// Given a PUT under way, when the ACK claims that more bytes were accepted than were
// sent, then PutWait returns the number of bytes sent.
func TestAckOfMoreThanWasSent(t *testing.T) {
	for _, length := range []uint32{4, 1 << 31, ^uint32(0)} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t)
			p.fabric.hold(true)
			got := make(chan int, 1)
			go func() {
				k, err := p.a.PutWait(t.Context(), []byte("abc"), p.idb, node.PutOptions{Portal: 1, Ack: true})
				if err != nil {
					t.Error(err)
				}
				got <- k
			}()
			synctest.Wait()
			if err := p.pa.inject(p.idb.NID, p.ackOfHead(length), nil); err != nil {
				t.Fatal(err)
			}
			p.fabric.hold(false)
			if k := <-got; k != 3 {
				t.Errorf("ACK of %d: %d bytes, want 3", length, k)
			}
		})
	}
}

// ackOfHead returns an ACK by b for the next PUT that a sends.
func (p *pair) ackOfHead(length uint32) lnet.Header {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	return lnet.Header{
		Dest: p.ida.NID, DestPID: p.ida.PID, Src: p.idb.NID, SrcPID: p.idb.PID,
		Type: lnet.MsgAck, Handle: p.fabric.head.tx.Header.Handle, Length: length,
	}
}

// deaf is the upper layer of a host that never reads the messages sent to it.
type deaf struct{}

func (deaf) Arrived(*lnd.Rx) error           { return nil }
func (deaf) Withdrawn(*lnd.Rx)               {}
func (deaf) PeerDown(lnd.PeerDown)           {}
func (deaf) PeerRestarted(lnet.NID)          {}
func (deaf) LNDTimeout() time.Duration       { return 0 }
func (deaf) Vouched(lnet.NID) bool           { return false }
func (deaf) LinkChanged(lnd.LinkState)       {}
func (deaf) Sent(*lnd.Tx, error)             {}
func (deaf) PeerStalled(lnet.NID, time.Time) {}
func (deaf) ConnectionsLost(lnet.NID)        {}

// Given a node with two NIs, when a host sends it thousands of pings from 0@lo, or from
// its own NID without ever reading an answer, and its connections break, then the node
// survives, answers others, and keeps no state of the host.
func TestRemoteHostCannotBringTheNodeDown(t *testing.T) {
	for name, source := range map[string]lnet.NID{
		"0@lo": lnet.LoopbackNID, "itself": lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.MustParseAddr("10.0.0.66"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				victim, id := s.node(t, "victim", "10.0.0.1", "10.0.1.1")
				friend, _ := s.node(t, "friend", "10.0.0.2")
				d := s.driver(t, "evil", "10.0.0.66")
				evil, err := d.Open(t.Context(), lnd.Config{Net: id.NID.Net(), Upper: deaf{},
					NID: lnet.NIDFromIP(id.NID.Net(), netip.MustParseAddr("10.0.0.66"))})
				if err != nil {
					t.Fatal(err)
				}
				for range 3000 {
					evil.Send(&lnd.Tx{To: id, Done: deaf{}, Header: lnet.Header{
						Type: lnet.MsgGet, Src: source, SrcPID: lnet.PIDLustre, Dest: id.NID, DestPID: lnet.PIDLustre,
						MatchBits: lnet.PingMatchBits, Length: 272, Handle: lnet.Handle{Interface: 1, Object: 1},
					}})
				}
				time.Sleep(time.Second)
				for _, c := range s.Conns() {
					c.Reset()
				}
				if err := evil.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if _, err := friend.Ping(t.Context(), id, node.PingOptions{}); err != nil {
					t.Errorf("another node's ping: %v", err)
				}
				time.Sleep(10 * time.Minute) // all possible resends are over
				if c := victim.Admin().Counters(); c.Committed != 0 {
					t.Errorf("%d messages kept", c.Committed)
				}
			})
		})
	}
}

// simulated is a network of nodes over simlnd, for synctest bubbles.
type simulated struct{ *simlnd.Fabric }

func newSimulated(t testing.TB) simulated {
	t.Helper()
	s := simulated{simlnd.New(simlnd.Config{Seed: 1})}
	t.Cleanup(s.Close)
	return s
}

// driver returns a driver of a host with these addresses.
func (s simulated) driver(t testing.TB, name string, addresses ...string) lnd.Driver {
	t.Helper()
	d, err := simlnd.NewDriver(s.Host(name, addresses...), driverConfig())
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, d)
	return d
}

// node returns a node with an NI for each address, and its process ID with the first one.
func (s simulated) node(t testing.TB, name string, addresses ...string) (*node.Node, lnet.ProcessID) {
	t.Helper()
	d := s.driver(t, name, addresses...)
	n := newNode(t, node.Config{})
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	for _, a := range addresses {
		nid := lnet.NIDFromIP(tcp, netip.MustParseAddr(a))
		if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: tcp, NID: nid}); err != nil {
			t.Fatal(err)
		}
	}
	return n, lnet.ProcessID{NID: n.NID(), PID: lnet.PIDLustre}
}
