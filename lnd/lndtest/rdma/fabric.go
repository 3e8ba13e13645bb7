package rdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Fabric is a network with devices. All methods are safe for concurrent use.
type Fabric struct {
	report func(error)
	typ    lnet.NetType

	mu    sync.Mutex
	ports map[lnet.NID]*Interface // that are open
	lives uint64                  // number of interfaces so far
}

// New creates a fabric for nets of one type. It calls report for each violation, with the fabric's lock
// held: a header that cannot be sent, or memory that was accessed without permission, released too early,
// or never returned to the pool. If report is nil, a violation panics.
func New(typ lnet.NetType, report func(error)) *Fabric {
	return &Fabric{report: report, typ: typ, ports: make(map[lnet.NID]*Interface)}
}

// Limits are the limits of a Driver's interfaces.
type Limits struct {
	// Immediate is the largest payload, and the largest sink of a GET, in bytes that is sent without
	// RDMA.
	Immediate int
	// Unplaced is the number of messages of one peer that may arrive before the first of them is placed.
	Unplaced int
}

// DefaultLimits returns the limits of o2iblnd 10.1, with 8 messages.
func DefaultLimits() Limits { return Limits{Immediate: 3976, Unplaced: 8} }

// Driver opens interfaces on a fabric.
type Driver struct {
	fabric *Fabric
	limits Limits

	err error // of Register; the fabric's lock guards it
}

var _ lnd.Driver = (*Driver)(nil)

// NewDriver returns a driver on the fabric.
func (f *Fabric) NewDriver(l Limits) *Driver { return &Driver{fabric: f, limits: l} }

// FailRegister makes the devices return err when programs register memory. If err is nil, they register
// it again.
func (d *Driver) FailRegister(err error) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.err = err
}

// Type implements lnd.Driver.
func (d *Driver) Type() lnet.NetType { return d.fabric.typ }

var errAddress = errors.New("no such address, or it is in use")

// Open implements lnd.Driver. Config.NID is required.
func (d *Driver) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	f := d.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.NID.IsZero() || f.ports[c.NID] != nil {
		return nil, &lnd.Error{Driver: name, Op: "open", Peer: c.NID, Status: lnd.StatusLocalError, Err: errAddress}
	}
	t := c.Tunables
	if t.PeerCredits <= 0 {
		t.PeerCredits = 8
	}
	if t.Credits <= 0 {
		t.Credits = max(256, t.PeerCredits)
	}
	if t.PeerTimeout < 0 {
		t.PeerTimeout = 180 * time.Second
	}
	f.lives++
	i := &Interface{
		fabric: f, driver: d, nid: c.NID, device: device{fabric: f, regions: make(map[*registration]struct{})},
		name: c.Device, upper: c.Upper, tunables: t, life: f.lives,
		ends: make(map[lnet.NID]*end), met: make(map[lnet.NID]uint64), telling: make(map[lnet.NID]int),
		heard: make(map[lnet.NID]time.Time), idle: make(chan struct{}),
	}
	i.wake.L = &f.mu
	f.ports[c.NID] = i
	go i.run()
	return i, nil
}

// Kill breaks the connections between two NIDs.
func (f *Fabric) Kill(a, b lnet.NID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.ports[a]; i != nil {
		if e := i.ends[b]; e != nil {
			e.kill(lnd.StatusNetworkTimeout, lnd.ErrDisconnected)
		}
	}
}

// SetLink changes the state of a device's link. Connections stay.
func (f *Fabric) SetLink(nid lnet.NID, s lnd.LinkState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.ports[nid]; i != nil && i.link != s {
		i.link = s
		i.post(func() { i.upper.LinkChanged(s) })
	}
}

// Registered returns the number of registrations of programs on the device with a NID.
func (f *Fabric) Registered(nid lnet.NID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.ports[nid]; i != nil {
		return len(i.device.regions)
	}
	return 0
}

const name = "rdma"

func failure(op string, peer lnet.NID, s lnd.Status, err error) error {
	return &lnd.Error{Driver: name, Op: op, Peer: peer, Status: s, Err: err}
}

// end is one side of a connection.
type end struct {
	i       *Interface
	peer    lnet.NID
	other   *end
	dead    bool
	credits int         // messages that may be announced to the other side
	out     []*transfer // transfers that wait for credits
	under   []*transfer // sent by this side, and not complete
}

// connect returns i's end of the connection to a peer. It opens one if necessary, and returns nil if the
// peer does not exist. The lock is held.
func (i *Interface) connect(peer lnet.NID) *end {
	if e := i.ends[peer]; e != nil {
		return e
	}
	p := i.fabric.ports[peer]
	if p == nil || p == i || p.nid.Net() != i.nid.Net() {
		return nil
	}
	e := &end{i: i, peer: peer, credits: p.driver.limits.Unplaced}
	e.other = &end{i: p, peer: i.nid, other: e, credits: i.driver.limits.Unplaced}
	i.ends[peer], p.ends[i.nid] = e, e.other
	i.meet(p)
	p.meet(i)
	return e
}

// meet notifies the upper side if the peer has begun a new life. Nothing is sent to the peer before that.
func (i *Interface) meet(p *Interface) {
	before := i.met[p.nid]
	i.met[p.nid] = p.life
	if before == 0 || before == p.life {
		return
	}
	nid := p.nid
	i.telling[nid]++
	i.post(func() {
		i.upper.PeerRestarted(nid)
		i.fabric.mu.Lock()
		defer i.fabric.mu.Unlock()
		if i.telling[nid]--; i.telling[nid] == 0 {
			delete(i.telling, nid)
		}
		if e := i.ends[nid]; e != nil {
			e.pump()
		}
	})
}

// pump sends waiting transfers as long as there are credits. The lock is held.
func (e *end) pump() {
	for len(e.out) > 0 && e.credits > 0 && !e.dead && e.i.telling[e.peer] == 0 {
		m := e.out[0]
		e.out = e.out[1:]
		e.credits--
		e.under = append(e.under, m)
		m.announce()
	}
}

// over removes a transfer from the connection's list.
func (e *end) over(m *transfer) {
	e.under = slices.DeleteFunc(e.under, func(o *transfer) bool { return o == m })
}

// kill ends a connection with the given status on this side. The other side loses the connection. All
// transfers on it end with an error. The lock is held.
func (e *end) kill(s lnd.Status, why error) {
	if e.dead {
		return
	}
	o := e.other
	e.dead, o.dead = true, true
	for _, x := range []struct {
		*end
		s   lnd.Status
		err error
	}{{e, s, why}, {o, lnd.StatusNetworkTimeout, lnd.ErrDisconnected}} {
		if x.i.ends[x.peer] == x.end {
			delete(x.i.ends, x.peer)
		}
		for _, m := range x.out {
			m.sent(failure("send", x.peer, unstarted(x.s), x.err))
		}
		for _, m := range x.under {
			m.cut(failure("send", x.peer, x.s, x.err))
		}
		x.out, x.under = nil, nil
		x.i.lost(x.peer, failure("connection", x.peer, x.s, x.err))
	}
}

// unstarted returns the status of a message that the peer has not seen.
func unstarted(s lnd.Status) lnd.Status {
	if s == lnd.StatusNetworkTimeout {
		return lnd.StatusRemoteDropped
	}
	return s
}

// lost notifies the upper side that the connection to a peer is lost, unless the interface is closing.
func (i *Interface) lost(peer lnet.NID, err error) {
	if i.closed {
		return
	}
	d := lnd.PeerDown{Peer: peer, LastAlive: i.heard[peer], Err: err}
	i.post(func() {
		i.upper.ConnectionsLost(peer)
		i.upper.PeerDown(d)
	})
}

// String returns the name of the interface for messages of tests.
func (i *Interface) String() string { return fmt.Sprintf("rdma %s", i.nid) }
