package node_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// railDriver gives interfaces on the loopback device different names, so that several can
// be on one net.
type railDriver struct{ lnd.Driver }

func (d railDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.Driver.Open(ctx, c)
	return rail{i}, err
}

type rail struct{ lnd.Interface }

func (r rail) Device() string { return "of " + r.NID().String() }

// oldDriver is the driver of a node without Multi-Rail, as before Lustre 2.10: its ping
// info has neither that feature nor a sequence number. It records incoming messages.
type oldDriver struct {
	lnd.Driver
	seen *wireLog
}

// wireLog records the headers that have arrived at a host.
type wireLog struct {
	mu      sync.Mutex // guards the fields below
	headers []lnet.Header
}

// take returns those for which match returns true.
func (l *wireLog) take(match func(h *lnet.Header) bool) (list []lnet.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.headers {
		if match(&h) {
			list = append(list, h)
		}
	}
	return list
}

func (d oldDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	c.Upper = noting{c.Upper, d.seen}
	i, err := d.Driver.Open(ctx, c)
	return oldInterface{i}, err
}

// noting is the upper layer of an interface.
type noting struct {
	lnd.Upper
	seen *wireLog
}

func (n noting) Arrived(m *lnd.Rx) error {
	n.seen.mu.Lock()
	n.seen.headers = append(n.seen.headers, m.Header)
	n.seen.mu.Unlock()
	return n.Upper.Arrived(m)
}

type oldInterface struct{ lnd.Interface }

// Send changes the features in the node's own ping info.
func (i oldInterface) Send(m *lnd.Tx) {
	b := make([]byte, m.Payload.Length)
	m.Payload.CopyTo(b)
	info, err := lnet.DecodePingInfo(b, 16)
	if m.Header.Type == lnet.MsgReply && m.Header.Src == i.NID() && err == nil {
		info.Features = lnet.FeatNIStatus | info.Features&lnet.FeatRoutingDisabled
		info.Seq = 0
		m.Payload = memory.Of(info.Append(nil, binary.LittleEndian))
	}
	i.Interface.Send(m)
}

// rig is a set of hosts with TCP on loopback addresses.
type rig struct {
	t     *testing.T
	hosts int
}

// station is a host of a rig, with a NID for each of its nets.
type station struct {
	*node.Node
	nids []lnet.NID
	seen wireLog
}

// host adds a host with one NI for each listed net, tcp0 and so on. An old host has
// neither discovery nor Multi-Rail. A host on two nets is a router.
func (r *rig) host(old bool, nets ...uint16) *station {
	r.t.Helper()
	p := node.DefaultParameters()
	p.RouterPingTimeout = time.Minute // a busy machine takes a while
	if old {
		p.Discovery = discovery.Static
	}
	d, err := socklnd.New(socklnd.UnprivilegedConfig(9983))
	if err != nil {
		r.t.Fatal(err)
	}
	closeAtEnd(r.t, d)
	s := &station{Node: newNode(r.t, node.Config{Parameters: &p, Routing: len(nets) > 1 && nets[0] != nets[1]})}
	var driver lnd.Driver = railDriver{d}
	if old {
		driver = oldDriver{driver, &s.seen}
	}
	for _, number := range nets {
		net := lnet.MakeNet(lnet.TypeTCP, number)
		nid := lnet.NIDFromIP(net, netip.AddrFrom4(loopbackAddress(10+r.hosts).As4()))
		r.hosts++
		if _, err := s.AddNI(r.t.Context(), driver, lnd.Config{Net: net, NID: nid}); err != nil {
			r.t.Fatal(err)
		}
		s.nids = append(s.nids, nid)
	}
	return s
}

// exchanges sends n PUTs to a NID and n GETs to it, and waits for the answers.
func (s *station) exchanges(t *testing.T, to *station, nid lnet.NID, n int) {
	t.Helper()
	const size = 4096
	for bits, option := range map[uint64]portals.MDOptions{1: portals.OpPut, 2: portals.OpGet} {
		h := attach(t, to.Node, portals.Entry{Portal: 9, MatchBits: bits}, portals.MD{
			Bytes: make([]byte, size), Threshold: portals.Unlimited, Options: option | portals.ManageRemote,
		})
		defer func() { _ = to.Unlink(h) }()
	}
	answers := make(chan error, 2*n)
	h := bind(t, s.Node, portals.MD{
		Bytes: make([]byte, size), Threshold: portals.Unlimited,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.Type != portals.EventSend || e.Err != nil {
				answers <- e.Err
			}
		}),
	})
	defer func() { _ = s.Unlink(h) }()
	id := lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}
	for range n {
		put(t, s.Node, h, id, node.PutOptions{Portal: 9, MatchBits: 1, Ack: true})
		if err := <-answers; err != nil {
			t.Fatalf("PUT to %s: %v", nid, err)
		}
		if err := s.Get(h, id, node.GetOptions{Portal: 9, MatchBits: 2}); err != nil {
			t.Fatal(err)
		}
		if err := <-answers; err != nil {
			t.Fatalf("GET from %s: %v", nid, err)
		}
	}
}

// wantOld checks what a host knows about an old one, that it has sent no PUSH to it, and
// that all its requests came from one NID: an old peer takes each NID for a separate
// node.
func (s *station) wantOld(t *testing.T, old *station, nid lnet.NID) {
	t.Helper()
	if p, known := s.Peer(nid); !known || p.MultiRail || len(p.NIs) != 1 {
		t.Errorf("%s is %+v, want one that is not Multi-Rail, with one NID", nid, p)
	}
	mine := func(h *lnet.Header) bool {
		for _, own := range s.nids {
			if h.Src == own && h.Dest == nid {
				return true
			}
		}
		return false
	}
	if list := old.seen.take(func(h *lnet.Header) bool {
		return mine(h) && h.Type == lnet.MsgPut && h.Portal == lnet.ReservedPortal
	}); len(list) > 0 {
		t.Errorf("%s has got %d pushes", nid, len(list))
	}
	from := map[lnet.NID]int{}
	for _, h := range old.seen.take(func(h *lnet.Header) bool {
		return mine(h) && (h.Type == lnet.MsgPut || h.Type == lnet.MsgGet) && h.Portal != lnet.ReservedPortal
	}) {
		from[h.Src]++
	}
	if len(from) != 1 {
		t.Errorf("%s has got requests from %v, want one NID", nid, from)
	}
}

// Given a client with two NIs on a net, and servers without Multi-Rail, when it sends to
// them, then all messages arrive and are answered. Each server sees only one NID and gets
// no PUSH.
//
// seed 002, static configuration 1: an uprev Multi-Rail client with downrev servers.
//
// discovery 1 single, 8.2 old
func TestMultiRailClientOfOldServers(t *testing.T) {
	r := rig{t: t}
	client := r.host(false, 0, 0)
	servers := []*station{r.host(true, 0), r.host(true, 0)}
	for range 2 {
		for _, s := range servers {
			client.exchanges(t, s, s.nids[0], 20)
			client.wantOld(t, s, s.nids[0])
		}
	}
}

// Given a server with two NIs, and clients without Multi-Rail, when these send to its
// NIDs, then each answer comes from the NID of the request, and no client gets a PUSH.
//
// seed 002, static configuration 2: uprev Multi-Rail servers with downrev clients.
//
// discovery 1 single, 8.2 old
// selection 4.3 local (1)
func TestMultiRailServerOfOldClients(t *testing.T) {
	r := rig{t: t}
	server := r.host(false, 0, 0)
	for k, client := range []*station{r.host(true, 0), r.host(true, 0)} {
		for _, nid := range server.nids {
			client.exchanges(t, server, nid, 20)
			answers := client.seen.take(func(h *lnet.Header) bool { return h.Type == lnet.MsgAck || h.Type == lnet.MsgReply })
			if len(answers) != 40 {
				t.Errorf("client %d: %d answers, want 40", k, len(answers))
			}
			for _, h := range answers {
				if h.Src != nid {
					t.Errorf("client %d: the %s from %s, want %s", k, h.Type, h.Src, nid)
				}
			}
			client.seen.mu.Lock()
			client.seen.headers = nil
			client.seen.mu.Unlock()
		}
		if p, known := server.Peer(client.nids[0]); !known || p.MultiRail {
			t.Errorf("client %d is %+v", k, p)
		}
	}
}

// Given a client and a server with two NIs each, on two nets, and routers without
// Multi-Rail between them, when they exchange messages, then all arrive, the two know
// each other as Multi-Rail, and the routers themselves have received no PUSH. With an old
// server, the peers are not Multi-Rail.
//
// seed 002, static configurations 5 and 6: uprev Multi-Rail clients with uprev or downrev servers, and downrev
// routers.
//
// discovery 1 single, 8.2 old
func TestMultiRailThroughOldRouters(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old server %t", old), func(t *testing.T) {
			r := rig{t: t}
			client, routers := r.host(false, 0, 0), []*station{r.host(true, 0, 1), r.host(true, 0, 1)}
			var server *station
			if old {
				server = r.host(true, 1)
			} else {
				server = r.host(false, 1, 1)
			}
			for _, g := range routers {
				for net, by := range map[lnet.Net]struct {
					*station
					gateway lnet.NID
				}{lnet.MakeNet(lnet.TypeTCP, 1): {client, g.nids[0]}, lnet.MakeNet(lnet.TypeTCP, 0): {server, g.nids[1]}} {
					if err := by.Admin().AddRoute(t.Context(), net, by.gateway, node.RouteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := client.Discover(t.Context(), server.nids[0]); err != nil {
				t.Fatal(err)
			}
			client.exchanges(t, server, server.nids[0], 20)
			if !old {
				server.exchanges(t, client, client.nids[0], 20)
			}
			want := 2
			if old {
				want = 1
			}
			if p, _ := client.Peer(server.nids[0]); p.MultiRail == old || len(p.NIs) != want {
				t.Errorf("the server is %+v", p)
			}
			for _, g := range routers {
				if p, known := client.Peer(g.nids[0]); !known || p.MultiRail {
					t.Errorf("the router is %+v", p)
				}
				if list := g.seen.take(func(h *lnet.Header) bool {
					return h.Type == lnet.MsgPut && h.Portal == lnet.ReservedPortal && (h.Dest == g.nids[0] || h.Dest == g.nids[1])
				}); len(list) > 0 {
					t.Errorf("a router has got %d pushes", len(list))
				}
			}
		})
	}
}
