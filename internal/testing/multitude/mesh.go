package multitude

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Properties of the simulated network.
const (
	// latency is the one-way delay of a message.
	latency = 50 * time.Microsecond
	// serviceTime is how long an interface is busy with each incoming message. A real node needs about as
	// long for a message if each comes on another connection.
	serviceTime = 15 * time.Microsecond
	// deadTime is when a message to an interface that is dead fails. socklnd notices a dead path after
	// one second.
	deadTime = time.Second
	// lndTimeout is the LND timeout of all interfaces.
	lndTimeout = 50 * time.Second
	// credits and peerCredits are the defaults of socklnd.
	credits     = 256
	peerCredits = 8
)

// mesh is a network to which all interfaces are attached. It implements lnd.Driver.
type mesh struct {
	start    time.Time
	ports    sync.Map // lnet.NID to *port
	messages atomic.Int64
	lastAt   atomic.Int64 // when the last message arrived, in nanoseconds after start
}

func (m *mesh) Type() lnet.NetType { return lnet.TypeTCP }

// Open implements lnd.Driver.
func (m *mesh) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	p := &port{mesh: m, nid: c.NID, upper: c.Upper}
	m.ports.Store(c.NID, p)
	return p, nil
}

// port returns the interface with the given NID, or nil.
func (m *mesh) port(nid lnet.NID) *port {
	p, ok := m.ports.Load(nid)
	if !ok {
		return nil
	}
	return p.(*port)
}

// port is an interface of a node.
type port struct {
	mesh     *mesh
	nid      lnet.NID
	upper    lnd.Upper
	dead     atomic.Bool // neither sends nor receives
	received atomic.Int64

	mu     sync.Mutex // guards freeAt
	freeAt time.Time  // when the messages that are under way to the interface have been served
}

// message is a message under way.
type message struct {
	to        *port
	tx        *lnd.Tx
	payload   []byte
	rx        lnd.Rx
	placement lnd.Placement

	mu      sync.Mutex // guards the fields below, and placement
	arrived bool       // the upcall Arrived has returned
	placed  bool
}

// Send implements lnd.Interface.
func (p *port) Send(tx *lnd.Tx) {
	to := p.mesh.port(tx.To.NID)
	switch {
	case p.dead.Load():
		p.fail(tx, lnd.StatusLocalDropped)
		return
	case to == nil || to.dead.Load():
		p.fail(tx, lnd.StatusRemoteDropped)
		return
	}
	m := &message{to: to, tx: tx}
	if tx.Payload.Length > 0 {
		m.payload = make([]byte, tx.Payload.Length)
		tx.Payload.CopyTo(m.payload)
	}
	m.rx = lnd.Rx{Header: tx.Header, From: lnet.ProcessID{NID: p.nid, PID: lnet.PIDLustre}, Driver: m}
	time.AfterFunc(to.reserve(), m.deliver)
}

// fail completes a message with an error after deadTime.
func (p *port) fail(tx *lnd.Tx, s lnd.Status) {
	time.AfterFunc(deadTime, func() {
		tx.Done.Sent(tx, &lnd.Error{Driver: "mesh", Op: "send", Peer: tx.To.NID, Status: s, Err: lnd.ErrUnreachable})
	})
}

// reserve reserves the service of one message, and returns the time until it is done.
func (p *port) reserve() time.Duration {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := now.Add(latency); p.freeAt.Before(at) {
		p.freeAt = at
	}
	p.freeAt = p.freeAt.Add(serviceTime)
	return p.freeAt.Sub(now)
}

// deliver completes the message for its sender, and passes it to the receiver.
func (m *message) deliver() {
	m.tx.Done.Sent(m.tx, nil)
	m.tx = nil
	if m.to.dead.Load() {
		return
	}
	m.to.received.Add(1)
	m.to.mesh.messages.Add(1)
	m.to.mesh.lastAt.Store(int64(time.Since(m.to.mesh.start)))
	if m.to.upper.Arrived(&m.rx) != nil {
		return
	}
	m.mu.Lock()
	m.arrived = true
	placed := m.placed
	m.mu.Unlock()
	if placed {
		m.finish()
	}
}

// Receive implements lnd.Interface.
func (p *port) Receive(rx *lnd.Rx, to lnd.Placement) {
	m := rx.Driver.(*message)
	m.mu.Lock()
	m.placement, m.placed = to, true
	arrived := m.arrived
	m.mu.Unlock()
	if arrived {
		m.finish()
	}
}

// finish stores the payload and completes the message for its receiver.
func (m *message) finish() {
	if m.placement.Done == nil {
		return
	}
	m.placement.Memory.CopyFrom(m.payload)
	m.placement.Done.Received(&m.rx, nil)
}

// setLink changes the state of the link and notifies the node. A dead link discards all messages.
func (p *port) setLink(s lnd.LinkState) {
	p.dead.Store(s == lnd.LinkDown)
	p.upper.LinkChanged(s)
}

func (p *port) Link() lnd.LinkState {
	if p.dead.Load() {
		return lnd.LinkDown
	}
	return lnd.LinkUp
}

func (p *port) NID() lnet.NID          { return p.nid }
func (p *port) Device() string         { return p.nid.String() }
func (p *port) LargeNIDs() bool        { return true }
func (p *port) Timeout() time.Duration { return lndTimeout }
func (p *port) Options() lnd.Values    { return nil }

func (p *port) Tunables() lnd.Tunables {
	return lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: peerCredits, Credits: credits}
}

// The mesh has neither connections nor waiting messages, so the other methods have no effect.

func (p *port) Disconnect(lnet.NID)                 {}
func (p *port) Refusals() lnd.RefusalCounts         { return lnd.RefusalCounts{} }
func (p *port) Recall(lnet.NID, func(*lnd.Tx) bool) {}
func (p *port) LinkBack(lnet.NID)                   {}
func (p *port) Probe(lnet.NID) bool                 { return true }
func (p *port) Counters() []lnd.Counter             { return nil }

// Close implements lnd.Interface.
func (p *port) Close(context.Context) error {
	p.dead.Store(true)
	p.mesh.ports.Delete(p.nid)
	return nil
}
