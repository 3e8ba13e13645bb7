package udplnd

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// bystander is an upper that accepts every message and never places it. It counts upcalls.
type bystander struct {
	lnd.Upper
	arrived, withdrawn []*lnd.Rx
	restarted, down    int
	losses             int // ConnectionsLost
}

func (u *bystander) Arrived(m *lnd.Rx) error {
	u.arrived = append(u.arrived, m)
	return nil
}
func (u *bystander) Withdrawn(m *lnd.Rx)             { u.withdrawn = append(u.withdrawn, m) }
func (u *bystander) PeerRestarted(lnet.NID)          { u.restarted++ }
func (u *bystander) ConnectionsLost(lnet.NID)        { u.losses++ }
func (u *bystander) PeerDown(lnd.PeerDown)           { u.down++ }
func (u *bystander) PeerStalled(lnet.NID, time.Time) {}
func (u *bystander) LNDTimeout() time.Duration       { return 10 * time.Second }

// attacked is an interface with sockets that are no nodes.
type attacked struct {
	t     *testing.T
	n     *packets
	d     *Driver
	i     lnd.Interface
	upper *bystander
}

func attack(t *testing.T, f func(a *attacked)) {
	synctest.Test(t, func(t *testing.T) {
		n := &packets{sockets: make(map[netip.AddrPort]*packetSocket), unlucky: func() bool { return false }}
		a := &attacked{t: t, n: n, d: &Driver{Port: port, Listen: n.listen}, upper: &bystander{}}
		var err error
		if a.i, err = a.d.Open(t.Context(), lnd.Config{NID: nid(0), Upper: a.upper}); err != nil {
			t.Fatal(err)
		}
		f(a)
		if err := a.i.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// puppet is a socket at a node's address.
type puppet struct {
	net.PacketConn
	a *attacked
}

func (a *attacked) puppet(nid lnet.NID) *puppet {
	s, err := a.d.Listen(a.d.address(nid))
	if err != nil {
		a.t.Fatal(err)
	}
	return &puppet{s, a}
}

func (p *puppet) send(d prefix, payload []byte) {
	b, err := binary.Append(nil, binary.BigEndian, d)
	if err != nil {
		p.a.t.Fatal(err)
	}
	_, _ = p.WriteTo(append(b, payload...), p.a.d.address(nid(0)))
	synctest.Wait()
	time.Sleep(time.Millisecond)
}

// answer returns the next datagram for the puppet.
func (p *puppet) answer() (d prefix) {
	b := make([]byte, 1<<16)
	n, _, err := p.ReadFrom(b)
	if err == nil {
		_, err = binary.Decode(b[:n], binary.BigEndian, &d)
	}
	if err != nil {
		p.a.t.Fatal(err)
	}
	return d
}

// Calls from invented addresses fill the table and no more. A peer to which the node sends is there
// nevertheless, and when the callers are forgotten, others can call.
func TestTableIsBounded(t *testing.T) {
	attack(t, func(a *attacked) {
		inside := a.i.(*ni)
		for k := range 3 * maxPeers {
			p := a.puppet(lnet.NIDFromNumber(udp, uint32(0x0a000001+k)))
			p.send(prefix{Kind: hello, From: 7, Incarnation: 1}, nil)
			_ = p.Close()
		}
		if n := len(inside.peers); n != maxPeers {
			t.Errorf("%d peers are in the table, want %d", n, maxPeers)
		}
		if n := a.i.Refusals()[lnd.RefusedMany]; n != 2*maxPeers {
			t.Errorf("%d callers were refused, want %d", n, 2*maxPeers)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.upper.down > 0 {
			t.Errorf("%d callers that opened no link were reported as lost", a.upper.down)
		}
		if n := len(inside.peers); n > maxPeers/2 {
			t.Errorf("%d peers are in the table after a minute", n)
		}
	})
}

// A sender that does not know the IDs of a link cannot end it, take it over or use it.
func TestIDsAreSecret(t *testing.T) {
	attack(t, func(a *attacked) {
		p := a.puppet(nid(1))
		p.send(prefix{Kind: hello, From: 7, Incarnation: 1}, nil)
		link := p.answer()
		p.send(prefix{Kind: hello, From: 7, To: link.From, Incarnation: 1}, nil)
		if d := p.answer(); d.Kind != ack {
			t.Fatalf("%+v, want an ack", d)
		}
		for _, kind := range []uint32{hello, reset, header, data, ack, ack + 1, hello - 1} {
			p.send(prefix{Kind: kind, From: 8, Incarnation: 2}, make([]byte, 96))
			p.send(prefix{Kind: kind, From: 7, To: link.From + 1, Incarnation: 2}, make([]byte, 96))
			p.send(prefix{Kind: kind, From: 8, To: link.From, Incarnation: 2}, make([]byte, 96))
		}
		if !a.i.Probe(nid(1)) || len(a.upper.arrived)+a.upper.restarted > 0 {
			t.Errorf("the link is open: %t; %d messages, %d restarts", a.i.Probe(nid(1)), len(a.upper.arrived), a.upper.restarted)
		}
	})
}

// Payload that the node has not placed is not stored. A peer that breaks the protocol loses its link.
func TestPayloadWithoutPlacement(t *testing.T) {
	for name, attempt := range map[string]struct {
		number  uint64
		payload int
		lost    bool
	}{
		"too early":              {1, 1000, false},
		"in place of the header": {0, 1000, true},
		"a message again":        {7, 96, false},
	} {
		t.Run(name, func(t *testing.T) {
			attack(t, func(a *attacked) {
				p := a.puppet(nid(1))
				p.send(prefix{Kind: hello, From: 7, Incarnation: 1}, nil)
				link := p.answer()
				h := lnet.Header{Type: lnet.MsgPut, Dest: nid(0), Src: nid(1), PayloadLength: 1000}
				p.send(prefix{Kind: header, From: 7, To: link.From, Incarnation: 1}, h.AppendNID16(nil))
				p.send(prefix{Kind: data, From: 7, To: link.From, Incarnation: 1, Number: attempt.number}, make([]byte, attempt.payload))
				if len(a.upper.arrived) != 1 {
					t.Fatalf("%d messages arrived, want 1", len(a.upper.arrived))
				}
				if open := a.i.Probe(nid(1)); open == attempt.lost || attempt.lost != (len(a.upper.withdrawn) == 1) {
					t.Errorf("the link is open: %t; %d messages were withdrawn", open, len(a.upper.withdrawn))
				}
			})
		})
	}
}

// Tunables that the driver does not have are rejected.
func TestUnknownTunable(t *testing.T) {
	attack(t, func(a *attacked) {
		i, err := a.d.Open(a.t.Context(), lnd.Config{NID: nid(1), Upper: a.upper, Options: lnd.Values{"frob": 1}})
		if err == nil || !strings.Contains(err.Error(), "frob") {
			t.Errorf("%v, %v; want an error that names the tunable", i, err)
		}
	})
}

// Close gives the socket back even if it may not wait for an upcall that is still running.
func TestCloseInTime(t *testing.T) {
	attack(t, func(a *attacked) {
		i, err := a.d.Open(a.t.Context(), lnd.Config{NID: nid(1), Upper: a.upper})
		if err != nil {
			t.Fatal(err)
		}
		upcall := make(chan struct{})
		go i.(*ni).do(func() { <-upcall })
		synctest.Wait()
		ctx, cancel := context.WithCancel(a.t.Context())
		cancel()
		if err := i.Close(ctx); !errors.Is(err, lnd.ErrTimeout) || !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
		_ = a.puppet(nid(1)).Close() // at the address of the interface
		close(upcall)
	})
}

// A message that waited in vain for a link is reported as the loss of the peer, but not of connections.
func TestNoConnectionIsLost(t *testing.T) {
	attack(t, func(a *attacked) {
		a.i.Send(&lnd.Tx{To: lnet.ProcessID{NID: nid(1)}, Done: discarded{}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.upper.down != 1 || a.upper.losses != 0 {
			t.Errorf("%d peers and %d connections were lost, want 1 and 0", a.upper.down, a.upper.losses)
		}
	})
}

// discarded ignores how a message ends.
type discarded struct{}

func (discarded) Sent(*lnd.Tx, error) {}
