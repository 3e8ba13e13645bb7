package portals

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Config says how a Table shall be.
type Config struct {
	// Cookie is the interface cookie of the handles (lnet-core 1.4). It
	// should differ from those of former lives of the node.
	Cookie uint64
	// Spawn runs run in another goroutine. It must do so once, sooner or
	// later, even if the owner is about to close: events wait for it. It is
	// called under no lock, must not block, and must not call run itself.
	//
	// It is for fairness: a goroutine that delivers an event also delivers
	// those of the same MD that others leave behind meanwhile, which could be
	// without end. After 64 of them it hands the rest over, and so does the
	// goroutine that run is in. With nil it goes on.
	Spawn func(run func())
}

// Table is a node's MDs and portals; New makes it, the zero value takes no MD. All
// methods are safe for concurrent use, and none blocks.
type Table struct {
	cookie  uint64
	objects atomic.Uint64 // MDs made so far
	handles handleTable
	portals [lnet.Portals]portal
	spawn   func(run func()) // or nil

	mds, events, shapes sync.Pool
}

// New makes an empty table.
func New(c Config) *Table {
	t := &Table{cookie: c.Cookie, spawn: c.Spawn}
	t.mds.New = func() any { return new(md) }
	t.events.New = func() any { return new(queuedEvent) }
	t.shapes.New = func() any { return new(shape) }
	seed := maphash.MakeSeed()
	for k := range t.portals {
		x := &t.portals[k].index
		x.seed, x.shapes = seed, &t.shapes
	}
	return t
}

// portalClass is fixed by the first entry that a portal ever gets, by an Attach
// that succeeds (lnet-core 2.1 step 3).
type portalClass uint8

const (
	classNone portalClass = iota
	classUnique
	classWildcard
)

// portal is one of 64: the entries that can take a request, and the requests
// that wait for one.
type portal struct {
	mu      sync.Mutex // guards the rest, and md.place of what is attached
	class   portalClass
	lazy    bool
	closed  bool
	index   index
	delayed Operations
	claims  []*Claim // that are held, in no order
	// unclaimed is how many of the index are under none.
	unclaimed int
}

// Close ends matching: no MD can be made or found any more, and every request
// is dropped. MDs that are left go without an event, unless an operation on
// them is still to Finish. A closed table keeps no MD and no memory; those of
// operations under way live on with these alone. Close returns the requests
// that were delayed.
func (t *Table) Close() (dropped Operations) {
	for k := range t.portals {
		p := &t.portals[k]
		p.mu.Lock()
		p.closed = true
		p.index.clear()
		for o := p.delayed.Next(); o != nil; o = p.delayed.Next() {
			dropped.push(o)
		}
		p.mu.Unlock()
	}
	t.handles.close()
	return dropped
}

// Bind makes an MD to send from, or to get into. It neither matches requests
// nor may have OpPut or OpGet, and holds at most 1 MiB. Errors are ErrInvalid
// and ErrClosed.
func (t *Table) Bind(c MD) (lnet.Handle, error) {
	h, err := t.bind(&c)
	if err != nil {
		return lnet.NoHandle, fmt.Errorf("bind: %w", err)
	}
	return h, nil
}

func (t *Table) bind(c *MD) (lnet.Handle, error) {
	if c.Options&(OpPut|OpGet) != 0 {
		return lnet.NoHandle, fmt.Errorf("options %#x: a bound MD has no OpPut or OpGet: %w", uint32(c.Options), ErrInvalid)
	}
	length, err := c.check()
	if err != nil {
		return lnet.NoHandle, err
	}
	if length > lnet.MTU {
		return lnet.NoHandle, fmt.Errorf("length %d: more than %d bytes: %w", length, lnet.MTU, ErrInvalid)
	}
	d, err := t.newMD(c)
	if err != nil {
		return lnet.NoHandle, err
	}
	h := d.handle
	if err := t.handles.insert(d); err != nil {
		t.freeMD(d)
		return lnet.NoHandle, err
	}
	return h, nil
}

// Unlink unlinks an MD: no further request finds it. Operations under way go
// on, messages that have not left yet are canceled: see Aborted. The MD's last
// event has Unlinked set: an UNLINK event if nothing is under way, which comes
// before Unlink returns unless earlier events of the MD are still being
// delivered, else that of the last operation. The error is ErrNotFound: the last event has
// been, or will be when what is under way ends; with ErrClosed, the MD may have gone with
// the table, without one.
func (t *Table) Unlink(h lnet.Handle) error {
	d := t.hold(h)
	if d == nil {
		err := ErrNotFound
		if t.handles.isClosed(h.Object) {
			err = fmt.Errorf("%w: %w", ErrNotFound, ErrClosed)
		}
		return fmt.Errorf("unlink %s: %w", h, err)
	}
	t.unlink(d)
	return nil
}

// hold returns the MD that h names, with its mu held and, if it is attached,
// its portal's; nil if there is none.
func (t *Table) hold(h lnet.Handle) *md {
	d := t.find(h)
	if d == nil {
		return nil
	}
	d.mu.Lock()
	p := d.portal
	ok := d.handle == h
	d.mu.Unlock()
	if !ok {
		return nil
	}
	if p != nil {
		p.mu.Lock()
	}
	d.mu.Lock()
	if d.handle == h && !d.zombie {
		return d
	}
	d.mu.Unlock()
	if p != nil {
		p.mu.Unlock()
	}
	return nil
}

// release undoes hold.
func (d *md) release() {
	p := d.portal
	d.mu.Unlock()
	if p != nil {
		p.mu.Unlock()
	}
}

// unlink unlinks d, which is held, and releases it.
func (t *Table) unlink(d *md) { t.end(d, nil) }

// end is unlink where the UNLINK event says why.
func (t *Table) end(d *md, why error) {
	d.aborted = true
	t.retire(d)
	t.untrack(d)
	if p := d.portal; p != nil {
		p.leave(d)
		p.mu.Unlock()
	}
	if d.refs > 0 {
		d.mu.Unlock()
		return
	}
	d.finish()
	q := t.events.Get().(*queuedEvent)
	q.event.Type, q.event.Unlinked, q.event.Err = EventUnlink, true, why
	d.describe(&q.event)
	t.deliver(d, &q.event)
	t.freeEvent(q)
}

// retire makes d a zombie, no longer to be found by its handle. d.mu is held.
func (t *Table) retire(d *md) {
	d.zombie = true
	t.handles.remove(d)
}
