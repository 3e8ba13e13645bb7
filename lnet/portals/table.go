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
	// Cookie is the interface cookie of the table's handles (lnet-core 1.4). It should differ
	// from that of earlier incarnations of the node, so that their handles are not valid.
	Cookie uint64
	// Spawn must call run in another goroutine exactly once, even if the owner is about to
	// close the table, because events wait for it. It must not block, and must not call run
	// itself. It is called with no lock held.
	//
	// Spawn limits how long one goroutine delivers events. A goroutine that delivers an event
	// also delivers the events that other goroutines queue for the same MD meanwhile, which
	// may never end. After 64 of them it therefore passes the rest to Spawn. If Spawn is nil,
	// it continues itself.
	Spawn func(run func())
}

// Table holds the MDs and portals of a node. New creates one; the zero Table accepts no
// MD. All methods are safe for concurrent use, and do not block.
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

// portalClass is the class of a portal: unique or wildcard. The first successful Attach or
// Claim determines it, and it never changes (lnet-core 2.1 step 3).
type portalClass uint8

const (
	classNone portalClass = iota
	classUnique
	classWildcard
)

// portal is one of the 64 portals. It has the entries that can still match, and the PUTs
// that wait for an entry.
type portal struct {
	mu      sync.Mutex // guards the other fields, and md.indexEntry of attached MDs
	class   portalClass
	lazy    bool
	closed  bool
	index   index
	delayed Operations
	claims  []*Claim // claims that have not ended, in no order
	// unclaimed is the number of entries in the index that do not belong to a claim that has
	// not ended.
	unclaimed int
}

// Close stops matching: no MD can be created or found any more, and every request is
// dropped. MDs are removed without an event, except for MDs with operations under way,
// whose last event Finish still delivers. Their memory remains in use until then. Close
// returns the waiting PUTs; the caller must drop them.
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

// Bind creates an MD for requests of this node, that is, for PUTs from its memory and GETs
// into it. Requests of other nodes cannot use it. It must not have OpPut or OpGet, and
// holds at most 1 MiB. The error is ErrInvalid or ErrClosed.
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

// Unlink unlinks an MD, so that no further request finds it. Operations under way
// continue, but messages that were not sent yet must be canceled (see Aborted). The MD's
// last event has Unlinked set. If operations are under way, it is the event of the last of
// them. Otherwise it is an UNLINK event, which is delivered before Unlink returns, unless
// earlier events of the MD are still being delivered.
//
// The error is ErrNotFound if the MD was already unlinked or never existed. If the error
// also matches ErrClosed, Close may have removed the MD without an event.
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

// lockMD returns the MD with the handle h. It returns nil if the MD does not exist or was
// unlinked. Otherwise d.mu is held, and portal.mu as well if the MD is attached; release
// releases both.
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

// unlink unlinks d, which lockMD returned, and releases the locks.
func (t *Table) unlink(d *md) { t.unlinkWithError(d, nil) }

// unlinkWithError is like unlink, but the UNLINK event has the error why.
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

// invalidate makes d a zombie: its handle no longer finds it. d.mu must be held.
func (t *Table) invalidate(d *md) {
	d.zombie = true
	t.handles.remove(d)
}
