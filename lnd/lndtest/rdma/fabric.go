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

// Fabric is a network with devices on it. All methods are safe for concurrent use.
type Fabric struct {
	report func(error)
	typ    lnet.NetType

	mu    sync.Mutex
	ports map[lnet.NID]*Interface // that are open
	lives uint64                  // of interfaces, so far
}

// New makes a fabric for nets of one type. report hears of each violation, under
// the fabric's lock: a header that cannot be carried, or memory that a device was told to
// touch and may not, that was released too early, or that the pool never gets back. nil:
// it panics.
func New(typ lnet.NetType, report func(error)) *Fabric {
	return &Fabric{report: report, typ: typ, ports: make(map[lnet.NID]*Interface)}
}

// Limits are what a Driver's interfaces do at a time.
type Limits struct {
	// Immediate is the largest payload, and the largest sink of a GET, that goes
	// without RDMA.
	Immediate int
	// Unplaced is how many messages of one peer arrive while none of them is placed.
	Unplaced int
}

// DefaultLimits are those of o2iblnd 10.1, and 8 messages.
func DefaultLimits() Limits { return Limits{Immediate: 3976, Unplaced: 8} }

// Driver opens interfaces on a fabric.
type Driver struct {
	fabric *Fabric
	limits Limits

	err error // of Register; the fabric's lock guards it
}

var _ lnd.Driver = (*Driver)(nil)

// NewDriver makes a driver.
func (f *Fabric) NewDriver(l Limits) *Driver { return &Driver{fabric: f, limits: l} }

// FailRegister has the devices refuse further memory of programs; nil: they take it.
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

// Registered tells how many registrations of programs the device with a NID has.
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
	out     []*transfer // that wait for credits
	under   []*transfer // sent by this side, and not over
}

// connect returns i's end of the connection with a peer, making one if there is
// none; nil: nobody is there. The lock is held.
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

// meet has the upper side told if the peer has begun a new life. Nothing is sent
// there until it has been.
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

// pump sends what waits as far as there are credits. The lock is held.
func (e *end) pump() {
	for len(e.out) > 0 && e.credits > 0 && !e.dead && e.i.telling[e.peer] == 0 {
		m := e.out[0]
		e.out = e.out[1:]
		e.credits--
		e.under = append(e.under, m)
		m.announce()
	}
}

// over takes a transfer off the connection's list.
func (e *end) over(m *transfer) {
	e.under = slices.DeleteFunc(e.under, func(o *transfer) bool { return o == m })
}

// kill ends a connection, for a reason that counts on this side; the other one has
// lost it. What was on it ends with an error. The lock is held.
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

// unstarted is how a message failed that the peer has seen nothing of.
func unstarted(s lnd.Status) lnd.Status {
	if s == lnd.StatusNetworkTimeout {
		return lnd.StatusRemoteDropped
	}
	return s
}

// lost tells that the connection with a peer is gone, unless all are.
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

// String names the interface in messages of tests.
func (i *Interface) String() string { return fmt.Sprintf("rdma %s", i.nid) }
