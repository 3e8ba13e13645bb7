//go:build o2ib && cgo

package matrix

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// patience is the time limit for a kernel in an emulated machine.
	patience = 30 * time.Second
	// service is the port at which kernels listen (o2iblnd 3.1).
	service = 987
	// stamp is our incarnation.
	stamp = 4711
)

var little, big = binary.LittleEndian, binary.BigEndian

// peer is one of our nodes, with a separate address.
type peer struct {
	t            *testing.T
	self, kernel lnet.NID
	channel      verbs.Channel
	asked        func(e *verbs.Event) // called for a connection request
	unprivileged bool                 // it uses an unprivileged port
	silent       bool                 // it does not announce its NIDs
	arrivals     chan arrival         // of all connections

	mu     sync.Mutex // guards events
	events []verbs.Event
	news   chan struct{} // receives one value for each event, unless one is queued
}

// arrival is a received message.
type arrival struct {
	on    *conn
	bytes []byte
}

// rows assigns addresses; row k gets the k-th one.
var rows struct {
	sync.Mutex
	next int
}

// newPeer creates a node with a separate address.
func newPeer(t *testing.T) *peer {
	t.Helper()
	return newPeerThat(t, func(*verbs.Event) {})
}

// newPeerThat creates a node to which peers may connect.
func newPeerThat(t *testing.T, asked func(e *verbs.Event)) *peer {
	t.Helper()
	words := strings.Fields(os.Getenv("LNETD_TEST_MATRIX"))
	if len(words) < 2 {
		t.Skip("needs a kernel node and RDMA: LNETD_TEST_MATRIX='NID ADDRESS...'; test/kernel runs this")
	}
	kernel, err := lnet.ParseNID(words[0])
	if err != nil {
		t.Fatal(err)
	}
	rows.Lock()
	rows.next++
	row := rows.next
	rows.Unlock()
	if row >= len(words) {
		t.Fatalf("%d rows, and %d addresses", row, len(words)-1)
	}
	p := &peer{
		t: t, kernel: kernel, self: lnet.NIDFromIP(kernel.Net(), netip.MustParseAddr(words[row])),
		asked: asked, news: make(chan struct{}, 1), arrivals: make(chan arrival, 64),
	}
	provider, err := rdmacore.Open()
	if err != nil {
		t.Fatal(err)
	}
	if p.channel, err = provider.OpenChannel(); err != nil {
		t.Fatal(err)
	}
	go p.listen()
	return p // its resources are released when the process ends
}

// listen answers requests, and stores the other events of the connection manager.
func (p *peer) listen() {
	var ev [8]verbs.Event
	for {
		n, err := p.channel.Events(ev[:])
		if err != nil {
			return
		}
		for k := range ev[:n] {
			if ev[k].Kind == verbs.EventConnectRequest {
				p.asked(&ev[k])
				continue
			}
			p.mu.Lock()
			p.events = append(p.events, ev[k])
			p.mu.Unlock()
		}
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
}

// await waits for one of several events of a connection.
func (p *peer) await(id verbs.ID, kinds ...verbs.EventKind) verbs.Event {
	p.t.Helper()
	over := time.After(patience)
	for {
		p.mu.Lock()
		k := slices.IndexFunc(p.events, func(e verbs.Event) bool { return e.ID == id && slices.Contains(kinds, e.Kind) })
		if k >= 0 {
			e := p.events[k]
			p.events = slices.Delete(p.events, k, k+1)
			p.mu.Unlock()
			return e
		}
		others := slices.Clone(p.events)
		p.mu.Unlock()
		select {
		case <-p.news:
		case <-over:
			p.t.Fatalf("none of %v, but %d others: %v", kinds, len(others), kindsOf(others))
		}
	}
}

func kindsOf(events []verbs.Event) (kinds []verbs.EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// request returns a valid CONNREQ.
func (p *peer) request() protocol.Message {
	return protocol.Message{
		Version: protocol.V2, Type: protocol.ConnReq, Src: p.self, SrcStamp: stamp, Dst: p.kernel,
		Params: protocol.Params{Depth: 8, Fragments: 256, Size: protocol.MaxMessage},
	}
}

// encoded returns a message in a byte order.
func (p *peer) encoded(m *protocol.Message, order binary.AppendByteOrder) []byte {
	p.t.Helper()
	b, err := m.Append(nil, order)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// call connects to the kernel with the given private data. why is not nil if the kernel rejects it.
func (p *peer) call(private []byte) (c *conn, why *protocol.Reject) {
	p.t.Helper()
	id, err := p.channel.Dial(verbs.Dial{
		From: p.self.IP(), To: netip.AddrPortFrom(p.kernel.IP(), service), Privileged: !p.unprivileged, Timeout: patience,
	})
	p.check(err)
	p.await(id, verbs.EventAddrResolved)
	p.check(id.ResolveRoute(patience))
	p.await(id, verbs.EventRouteResolved)
	c = newConn(p, id)
	p.check(id.Connect(verbs.ConnParam{Private: private, Retries: 5, RNRRetries: 6}))
	switch e := p.await(id, verbs.EventEstablished, verbs.EventRejected); e.Kind {
	case verbs.EventRejected:
		r, err := protocol.DecodeReject(e.Private[:e.PrivateLen])
		if err != nil || e.Status != verbs.RejectConsumer {
			p.t.Fatalf("rejected with status %d: %v", e.Status, err)
		}
		id.Destroy()
		return nil, &r
	default:
		order, err := c.ack.Decode(e.Private[:e.PrivateLen], protocol.Check)
		if err != nil || order != little || c.ack.Type != protocol.ConnAck {
			p.t.Fatalf("accepted with %+v in %v: %v", c.ack, order, err)
		}
		return c, nil
	}
}

func (p *peer) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// connect connects as a kernel would.
func (p *peer) connect() *conn {
	p.t.Helper()
	m := p.request()
	c, why := p.call(p.encoded(&m, little))
	if why != nil {
		p.t.Fatalf("rejected: %v", why.Why)
	}
	return c
}

// next returns the next message other than a NOOP without credits, on any connection: an answer may
// come on another connection than the request (o2iblnd 12.5). It also answers a kernel that asks
// for our NIDs.
func (p *peer) next() protocol.Message {
	p.t.Helper()
	m, _ := p.nextOn()
	return m
}

// nextOn also returns the connection of the message.
func (p *peer) nextOn() (protocol.Message, *conn) {
	p.t.Helper()
	for over := time.After(patience); ; {
		switch m, on := p.any(over); {
		case m.Type == protocol.Immediate && m.LNet.Type == lnet.MsgGet && m.LNet.MatchBits == lnet.PingMatchBits && !p.silent:
			on.reply(&m.LNet, p.info())
		case m.Type != protocol.Noop || m.Credits > 0:
			return m, on
		}
	}
}

// info returns our ping info.
func (p *peer) info() []byte {
	i := lnet.PingInfo{
		Features: lnet.FeatBase | lnet.FeatNIStatus, PID: lnet.PIDLustre, NIs: []lnet.PingNI{{NID: p.self, Status: lnet.StatusUp}},
	}
	return i.Append(nil, little)
}

// any returns the next message of any kind.
func (p *peer) any(over <-chan time.Time) (m protocol.Message, on *conn) {
	p.t.Helper()
	select {
	case a := <-p.arrivals:
		order, err := m.Decode(a.bytes, protocol.Check)
		if err != nil || order != little {
			p.t.Fatalf("% x in %v: %v", a.bytes, order, err)
		}
		return m, a.on
	case <-over:
		p.t.Fatal("nothing comes")
	}
	return m, nil
}

// wantReject connects, and expects the kernel to reject the request.
func (p *peer) wantReject(private []byte, want protocol.Reject) {
	p.t.Helper()
	switch c, got := p.call(private); {
	case got == nil:
		p.t.Errorf("accepted: %+v", c.ack)
	case *got != want:
		p.t.Errorf("rejected with %+v, want %+v", *got, want)
	}
}
