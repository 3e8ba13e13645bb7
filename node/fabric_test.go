package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// fabric is a network in memory. Frames are delivered in order by the first goroutine
// that finds the queue idle or, with held set, by the test.
type fabric struct {
	mu      sync.Mutex
	ports   map[lnet.NID]*port
	head    *frame
	tail    *frame
	running bool
	idle    sync.Cond // uses mu: running has ended
	held    bool      // frames wait for step

	fail func(tx *lnd.Tx) error        // see failBy
	sent func(h lnet.Header, b []byte) // see show

	frames sync.Pool
}

func newFabric() *fabric {
	f := &fabric{ports: map[lnet.NID]*port{}}
	f.idle.L = &f.mu
	f.frames.New = func() any {
		fr := &frame{fabric: f}
		fr.rx.Driver = fr
		return fr
	}
	return f
}

// port is one interface on a fabric.
type port struct {
	fabric   *fabric
	nid      lnet.NID
	device   string
	upper    lnd.Upper
	tunables lnd.Tunables
	options  lnd.Values

	mu     sync.Mutex
	link   lnd.LinkState
	closed bool
	cut    []lnet.NID // peers that were disconnected
	back   []lnet.NID // peers whose links are up again
}

// driver opens ports. onOpen, if set, runs before Open returns.
type driver struct {
	fabric *fabric
	typ    lnet.NetType
	onOpen func(p *port)
}

func (d *driver) Type() lnet.NetType { return d.typ }

var errNoDevice = errors.New("no such device")

func (d *driver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	if c.NID.IsZero() {
		return nil, &lnd.Error{Driver: "fabric", Op: "open", Status: lnd.StatusLocalError, Err: errNoDevice}
	}
	t := c.Tunables
	if t.PeerCredits <= 0 {
		t.PeerCredits = 8
	}
	if t.Credits <= 0 {
		t.Credits = 256
	}
	if t.PeerTimeout <= 0 {
		t.PeerTimeout = 180 * time.Second
	}
	p := &port{fabric: d.fabric, nid: c.NID, device: c.Device, upper: c.Upper, tunables: t, options: c.Options}
	d.fabric.mu.Lock()
	d.fabric.ports[p.nid] = p
	d.fabric.mu.Unlock()
	if d.onOpen != nil {
		d.onOpen(p)
	}
	return p, nil
}

func (p *port) NID() lnet.NID          { return p.nid }
func (p *port) Device() string         { return p.device }
func (p *port) Tunables() lnd.Tunables { return p.tunables }
func (p *port) Options() lnd.Values    { return p.options }

func (p *port) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }

func (p *port) Counters() []lnd.Counter {
	return []lnd.Counter{{Name: "frames", Value: 1}}
}
func (p *port) LargeNIDs() bool        { return true }
func (p *port) Timeout() time.Duration { return 50 * time.Second }

func (p *port) Link() lnd.LinkState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

func (p *port) setLink(s lnd.LinkState) {
	p.mu.Lock()
	p.link = s
	p.mu.Unlock()
	p.upper.LinkChanged(s)
}

func (p *port) Disconnect(peer lnet.NID) {
	p.mu.Lock()
	p.cut = append(p.cut, peer)
	p.mu.Unlock()
}

// LinkBack records the peer whose link is up again.
func (p *port) LinkBack(peer lnet.NID) {
	p.mu.Lock()
	p.back = append(p.back, peer)
	p.mu.Unlock()
}

// Recall returns messages that the fabric still holds.
func (p *port) Recall(to lnet.NID, match func(*lnd.Tx) bool) {
	p.fabric.recall(p, func(tx *lnd.Tx) bool { return (to.IsZero() || tx.To.NID == to) && match(tx) })
}

func (p *port) Probe(lnet.NID) bool { return true }

func (p *port) Close(context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.fabric.mu.Lock()
	delete(p.fabric.ports, p.nid)
	p.fabric.mu.Unlock()
	p.fabric.work() // deliver the failures now
	return nil
}

func (p *port) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// frame is a message under way.
type frame struct {
	fabric    *fabric
	from      *port
	tx        *lnd.Tx
	rx        lnd.Rx
	payload   []byte
	to        *port
	placement lnd.Placement
	next      *frame

	mu     sync.Mutex
	inCall bool // Arrived is running
	placed bool
}

func (p *port) Send(tx *lnd.Tx) {
	fr := p.fabric.frames.Get().(*frame)
	fr.from, fr.tx, fr.to = p, tx, nil
	fr.rx.Header = tx.Header
	fr.rx.From = lnet.ProcessID{NID: p.nid, PID: lnet.PIDLustre}
	fr.rx.Upper = nil // the frame may have been used for a message to another node
	fr.placed = false
	p.fabric.enqueue(fr)
	p.fabric.mu.Lock()
	held := p.fabric.held
	p.fabric.mu.Unlock()
	if !held {
		p.fabric.work()
	}
}

// recall completes the undelivered messages of p for which match returns true.
func (f *fabric) recall(p *port, match func(*lnd.Tx) bool) {
	f.mu.Lock()
	var back []*lnd.Tx
	fr := f.head
	f.head, f.tail = nil, nil
	for fr != nil {
		next := fr.next
		fr.next = nil
		switch {
		case fr.from == p && match(fr.tx):
			back = append(back, fr.tx)
		case f.head == nil:
			f.head, f.tail = fr, fr
		default:
			f.tail.next, f.tail = fr, fr
		}
		fr = next
	}
	f.mu.Unlock()
	for _, tx := range back {
		tx.Done.Sent(tx, fault(lnd.StatusLocalInterrupt, tx.To.NID, lnd.ErrRecalled))
	}
}

func (f *fabric) enqueue(fr *frame) {
	f.mu.Lock()
	fr.next = nil
	if f.head == nil {
		f.head = fr
	} else {
		f.tail.next = fr
	}
	f.tail = fr
	f.mu.Unlock()
}

// work delivers all queued frames, unless another goroutine is doing so.
func (f *fabric) work() {
	f.mu.Lock()
	if f.running {
		f.mu.Unlock()
		return
	}
	f.running = true
	for f.head != nil {
		fr := f.head
		f.head = fr.next
		f.mu.Unlock()
		f.deliver(fr)
		f.mu.Lock()
	}
	f.running = false
	f.idle.Broadcast()
	f.mu.Unlock()
}

// awaitIdle waits until no goroutine delivers frames.
func (f *fabric) awaitIdle() {
	f.mu.Lock()
	for f.running {
		f.idle.Wait()
	}
	f.mu.Unlock()
}

// step delivers the oldest frame and reports whether there was one.
func (f *fabric) step() bool {
	f.mu.Lock()
	fr := f.head
	if fr == nil {
		f.mu.Unlock()
		return false
	}
	f.head = fr.next
	f.mu.Unlock()
	f.deliver(fr)
	return true
}

// pending returns the number of queued frames.
func (f *fabric) pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for fr := f.head; fr != nil; fr = fr.next {
		n++
	}
	return n
}

// hold makes frames wait for step, or releases them.
func (f *fabric) hold(on bool) {
	f.mu.Lock()
	f.held = on
	f.mu.Unlock()
	if !on {
		f.work()
	}
}

// failBy makes messages fail for which fail returns an error.
func (f *fabric) failBy(fail func(tx *lnd.Tx) error) {
	f.mu.Lock()
	f.fail = fail
	f.mu.Unlock()
}

// show calls sent for every frame.
func (f *fabric) show(sent func(h lnet.Header, b []byte)) {
	f.mu.Lock()
	f.sent = sent
	f.mu.Unlock()
}

func fault(s lnd.Status, peer lnet.NID, err error) error {
	return &lnd.Error{Driver: "fabric", Op: "send", Peer: peer, Status: s, Err: err}
}

func (f *fabric) deliver(fr *frame) {
	if fr.to != nil { // it has arrived before, and its placement came late
		fr.finish()
		return
	}
	tx := fr.tx
	if fr.from.isClosed() {
		tx.Done.Sent(tx, fault(lnd.StatusLocalAborted, tx.To.NID, lnd.ErrClosed))
		return
	}
	f.mu.Lock()
	to, fail, sent := f.ports[tx.To.NID], f.fail, f.sent
	f.mu.Unlock()
	if fail != nil {
		if err := fail(tx); err != nil {
			tx.Done.Sent(tx, err)
			return
		}
	}
	if to == nil {
		tx.Done.Sent(tx, fault(lnd.StatusRemoteError, tx.To.NID, lnd.ErrUnreachable))
		return
	}
	fr.to = to
	if cap(fr.payload) < tx.Payload.Length {
		fr.payload = make([]byte, tx.Payload.Length)
	}
	fr.payload = fr.payload[:tx.Payload.Length]
	tx.Payload.CopyTo(fr.payload)
	if sent != nil {
		sent(tx.Header, append([]byte(nil), fr.payload...))
	}
	fr.tx = nil
	tx.Done.Sent(tx, nil)
	fr.arrive()
}

func (fr *frame) arrive() {
	fr.inCall = true
	err := fr.to.upper.Arrived(&fr.rx)
	fr.mu.Lock()
	fr.inCall = false
	placed := fr.placed
	fr.mu.Unlock()
	switch {
	case err != nil:
		fr.to.Disconnect(fr.rx.From.NID)
	case placed:
		fr.finish()
	}
}

func (p *port) Receive(rx *lnd.Rx, place lnd.Placement) {
	fr := rx.Driver.(*frame)
	fr.mu.Lock()
	fr.placement = place
	fr.placed = true
	now := !fr.inCall
	fr.mu.Unlock()
	if now {
		p.fabric.enqueue(fr)
		p.fabric.work()
	}
}

func (fr *frame) finish() {
	p := fr.placement
	fr.placement = lnd.Placement{}
	if p.Done != nil {
		p.Memory.CopyFrom(fr.payload)
		p.Done.Received(&fr.rx, nil)
	}
	fr.tx, fr.to, fr.from = nil, nil, nil
	fr.fabric.frames.Put(fr)
}

// inject makes a message arrive at a port as if it came from a NID.
func (p *port) inject(from lnet.NID, h lnet.Header, payload []byte) error {
	fr := &frame{fabric: p.fabric, to: p, payload: payload, inCall: true}
	fr.rx = lnd.Rx{Header: h, From: lnet.ProcessID{NID: from, PID: lnet.PIDLustre}, Driver: fr}
	err := p.upper.Arrived(&fr.rx)
	fr.mu.Lock()
	fr.inCall = false
	placed := fr.placed
	fr.mu.Unlock()
	if err == nil && placed {
		done := fr.placement.Done
		fr.placement.Memory.CopyFrom(payload)
		if done != nil {
			done.Received(&fr.rx, nil)
		}
	}
	return err
}

// addNI adds an NI on the fabric to a node.
func (f *fabric) addNI(t testing.TB, n *node.Node, nid string) *port {
	t.Helper()
	return f.addNIWith(t, n, lnd.Config{NID: parseNID(t, nid), Device: "dev-" + nid})
}

func (f *fabric) addNIWith(t testing.TB, n *node.Node, c lnd.Config) *port {
	t.Helper()
	c.Net = c.NID.Net()
	if _, err := n.AddNI(context.Background(), &driver{fabric: f, typ: c.Net.Type()}, c); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ports[c.NID]
}
