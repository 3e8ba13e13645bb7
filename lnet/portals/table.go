package portals

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Config configures a Table.
type Config struct {
	// Cookie is the interface cookie of the handles (lnet-core 1.4). It should differ from
	// those of earlier incarnations of the node.
	Cookie uint64
	// Spawn runs run in another goroutine. It must run it exactly once, even if the owner
	// is about to close, because events wait for it. Spawn is called with no lock held. It
	// must not block, and must not call run itself.
	//
	// Spawn limits how long one goroutine delivers events. A goroutine that delivers an
	// event also delivers those that other goroutines queue for the same MD meanwhile, and
	// that may never end. After 64 of them it hands the rest over by Spawn. If Spawn is
	// nil, it continues.
	Spawn func(run func())
}

// Table holds the MDs and portals of a node. New creates one; the zero value accepts no MD.
// All methods are safe for concurrent use, and none blocks.
type Table struct {
	cookie  uint64
	objects atomic.Uint64 // number of MDs created
	handles handleTable
	portals [lnet.Portals]portal
	spawn   func(run func()) // may be nil

	mds, events, shapes sync.Pool
}

// New returns an empty table.
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

// portalClass is the class of a portal. The first successful Attach determines it for good
// (lnet-core 2.1 step 3).
type portalClass uint8

const (
	classNone portalClass = iota
	classUnique
	classWildcard
)

// portal is one of the 64 portals: the entries that can match, and the requests that wait
// for an entry.
type portal struct {
	mu      sync.Mutex // guards the other fields, and md.indexEntry of attached MDs
	class   portalClass
	lazy    bool
	closed  bool
	index   index
	delayed Operations
	claims  []*Claim // claims that are held, in no order
	// unclaimed is the number of entries in the index that are under no claim.
	unclaimed int
}

// Close stops matching: no MD can be created or found any more, and every request is
// dropped. MDs are removed without an event, except for those with an operation that has
// yet to Finish. A closed table keeps no MD and no memory in use; only operations under way
// keep theirs. Close returns the delayed requests for the caller to drop.
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

// Bind creates an MD for requests of this node: PUTs from it and GETs into it. It matches
// no requests, may not have OpPut or OpGet, and holds at most 1 MiB. The error is
// ErrInvalid or ErrClosed.
func (t *Table) Bind(c MD) (lnet.Handle, error) {
	h, err := t.bind(&c)
	if err != nil {
		return lnet.NoHandle, fmt.Errorf("bind: %w", err)
	}
	return h, nil
}

func (t *Table) bind(c *MD) (lnet.Handle, error) {
	if c.Options&(OpPut|OpGet) != 0 {
		return lnet.NoHandle, fmt.Errorf("options %#x: only an attached MD may have OpPut or OpGet: %w", uint32(c.Options), ErrInvalid)
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

// Unlink unlinks an MD, so that no further request matches it. Operations under way
// continue; messages that have not left yet are canceled (see Aborted). The MD's last event
// has Unlinked set. If no operation is under way, it is an UNLINK event, which is delivered
// before Unlink returns unless earlier events of the MD are still being delivered.
// Otherwise it is the event of the last operation.
//
// The error is ErrNotFound if the last event was already delivered, or will be delivered
// when the operations under way end. If the error also matches ErrClosed, the MD may have
// been removed by Close without an event.
func (t *Table) Unlink(h lnet.Handle) error {
	d := t.lockMD(h)
	if d == nil {
		err := ErrNotFound
		if t.handles.isClosed(h.Object) {
			err = fmt.Errorf("%w: %w", ErrNotFound, ErrClosed)
		}
		return fmt.Errorf("unlink MD %s: %w", h, err)
	}
	t.unlink(d)
	return nil
}

// lockMD returns the MD for h with its mu held and, if it is attached, its portal's. It
// returns nil if there is no such MD.
func (t *Table) lockMD(h lnet.Handle) *md {
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

// release releases the locks that lockMD acquired.
func (d *md) release() {
	p := d.portal
	d.mu.Unlock()
	if p != nil {
		p.mu.Unlock()
	}
}

// unlink unlinks d, which lockMD returned, and releases it.
func (t *Table) unlink(d *md) { t.unlinkWithError(d, nil) }

// unlinkWithError is like unlink, with the error why in the UNLINK event.
func (t *Table) unlinkWithError(d *md, why error) {
	d.aborted = true
	t.invalidate(d)
	t.untrack(d)
	if p := d.portal; p != nil {
		p.removeEntry(d)
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

// invalidate makes d a zombie, which its handle no longer finds. d.mu is held.
func (t *Table) invalidate(d *md) {
	d.zombie = true
	t.handles.remove(d)
}
