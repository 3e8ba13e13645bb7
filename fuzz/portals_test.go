package fuzz

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// FuzzPortals drives a table with bytes. Each action is one byte and arguments in the following bytes.
// Handlers also perform actions.
func FuzzPortals(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	for seed := range uint64(24) { // long ones, so that much meets
		random := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &matching{t: t, bytes: b, table: portals.New(portals.Config{Cookie: 7})}
		for len(m.bytes) > 0 {
			m.performAction()
		}
		m.end()
	})
}

// matching is a table and the state that it must have.
type matching struct {
	t       *testing.T
	bytes   []byte
	table   *portals.Table
	mds     []*matchingMD
	open    []*portals.Operation // in progress
	waiting []*portals.Operation // delayed
	lazy    [2]bool
	last    uint64 // latest object cookie
	depth   int    // of handlers
}

// matchingMD is the expected state of an MD.
type matchingMD struct {
	handle   lnet.Handle
	entry    portals.Entry
	md       portals.MD
	attached bool
	unlinked bool // Unlink was called
	aborted  bool // Unlink succeeded
	over     bool // the last event came
	under    int  // operations in progress
	uses     int  // operations so far
	handling bool
}

func (m *matching) byte() byte {
	if len(m.bytes) == 0 {
		return 0
	}
	b := m.bytes[0]
	m.bytes = m.bytes[1:]
	return b
}

func (m *matching) nid(b byte) lnet.NID {
	if b&3 == 3 {
		return lnet.AnyNID
	}
	return lnet.NIDFromNumber(2<<16, uint32(b&3)+1)
}

// md draws an MD and records it.
func (m *matching) md(attached bool) *matchingMD {
	b, c := m.byte(), m.byte()
	d := &matchingMD{attached: attached}
	d.md = portals.MD{
		Bytes: make([]byte, b&7), Threshold: int(b>>3&3) - 1, Unlink: b&32 != 0, MaxSize: int(c >> 4 & 3), UserPtr: d,
	}
	for bit, option := range []portals.MDOptions{portals.Truncate, portals.ManageRemote, portals.MaxSize} {
		if c>>bit&1 != 0 {
			d.md.Options |= option
		}
	}
	if attached {
		d.md.Options |= portals.OpPut
		if c&8 != 0 {
			d.md.Options ^= portals.OpPut | portals.OpGet
		}
	}
	d.md.Handler = portals.HandlerFunc(func(e *portals.Event) { m.event(d, e) })
	return d
}

func (m *matching) event(d *matchingMD, e *portals.Event) {
	switch {
	case d.over:
		m.t.Fatal("an event after the last")
	case d.handling:
		m.t.Fatal("two handler calls at a time")
	case e.Type == portals.EventUnlink && (!d.unlinked || d.under > 0 || !e.Unlinked):
		m.t.Fatalf("UNLINK with %d operations under way, unlinked %v", d.under, d.unlinked)
	case len(e.Data()) != e.DataMemory().Length || len(e.Data()) > 0 && len(e.Data()) != e.Length:
		m.t.Fatalf("data %d, length %d", len(e.Data()), e.Length)
	case e.UserPtr != any(d) || len(e.Bytes) != len(d.md.Bytes):
		m.t.Fatal("another MD's event")
	}
	d.over = e.Unlinked
	d.handling = true
	if m.depth < 4 {
		m.depth++
		for range m.byte() & 3 {
			m.performAction()
		}
		m.depth--
	}
	d.handling = false
}

// enter records a new MD's handle.
func (m *matching) enter(d *matchingMD, h lnet.Handle) {
	if h.Interface != 7 || h.Object <= m.last || h.Object&3 != 1 {
		m.t.Fatalf("handle %v after %x", h, m.last)
	}
	m.last = h.Object
	d.handle = h
	m.mds = append(m.mds, d)
}

// owner returns the MD of an operation.
func (m *matching) owner(o *portals.Operation) *matchingMD {
	d, ok := o.Event.UserPtr.(*matchingMD)
	if !ok {
		m.t.Fatalf("operation without an MD: %+v", o.Event)
	}
	return d
}

// started records an operation that has begun, and checks its destination.
func (m *matching) started(o *portals.Operation) {
	d := m.owner(o)
	if d.unlinked || d.over {
		m.t.Fatal("an operation on an unlinked MD")
	}
	d.under++
	d.uses++
	if d.md.Threshold >= 0 && d.uses > d.md.Threshold {
		m.t.Fatalf("%d operations, threshold %d", d.uses, d.md.Threshold)
	}
	memory := o.Memory()
	if memory.Offset < 0 || memory.Length < 0 || memory.Length > 0 && memory.Offset+memory.Length > len(d.md.Bytes) {
		m.t.Fatalf("%d bytes at %d of %d", memory.Length, memory.Offset, len(d.md.Bytes))
	}
	m.open = append(m.open, o)
}

// accepted is like started, for a matched request.
func (m *matching) accepted(o *portals.Operation) {
	d := m.owner(o)
	if !m.matches(d, o) || o.Event.Length > o.Length || o.Event.Length < o.Length && d.md.Options&portals.Truncate == 0 {
		m.t.Fatalf("entry %+v, options %#x, took %+v of %d bytes", d.entry, uint32(d.md.Options), o.Event, o.Length)
	}
	m.started(o)
}

func (m *matching) matches(d *matchingMD, o *portals.Operation) bool {
	e, op := &o.Event, portals.OpPut
	if e.Type == portals.EventGet {
		op = portals.OpGet
	}
	return d.attached && d.md.Options&op != 0 && d.entry.Portal == e.Portal &&
		(d.entry.MatchBits^e.MatchBits)&^d.entry.IgnoreBits == 0 &&
		(d.entry.Match.PID == lnet.PIDAny || d.entry.Match.PID == e.Initiator.PID) &&
		(d.entry.Match.NID.IsAny() || d.entry.Match.NID == e.Initiator.NID || slices.Contains(o.Aliases, d.entry.Match.NID))
}

// unmatched fails the test if an entry that is not used up would have received or dropped o.
func (m *matching) unmatched(o *portals.Operation) {
	for _, d := range m.mds {
		if !d.unlinked && d.md.Threshold < 0 && d.md.Options&portals.MaxSize == 0 && m.matches(d, o) {
			m.t.Fatalf("entry %+v was passed over", d.entry)
		}
	}
}

// given fails the test unless o was delayed and no longer is.
func (m *matching) given(o *portals.Operation) {
	i := slices.Index(m.waiting, o)
	if i < 0 {
		m.t.Fatal("an operation that nobody delayed")
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
}

func (m *matching) dropped(q portals.Operations) {
	for o := q.Next(); o != nil; o = q.Next() {
		m.given(o)
	}
}

// left fails the test if a matching operation is still delayed.
func (m *matching) left(which func(*portals.Operation) bool) {
	if slices.ContainsFunc(m.waiting, which) {
		m.t.Fatal("still delayed")
	}
}

func (m *matching) performAction() {
	switch m.byte() % 12 {
	case 0, 1:
		m.attach()
	case 2:
		d := m.md(false)
		h, err := m.table.Bind(d.md)
		if bad := d.md.Options&portals.MaxSize != 0 && d.md.MaxSize > len(d.md.Bytes); bad != (err != nil) {
			m.t.Fatal(err)
		} else if err == nil {
			m.enter(d, h)
		}
	case 3, 4, 5:
		m.request()
	case 6:
		if d := m.some(); d != nil {
			o := new(portals.Operation)
			b := portals.Begin{Type: lnet.MsgPut, Response: true, Track: true, Now: 1, Deadline: 2}
			if m.byte()&1 == 0 {
				b.Type = lnet.MsgGet
			}
			if _, err := m.table.Begin(d.handle, o, b); err == nil {
				m.started(o)
			}
		}
	case 7:
		if d := m.some(); d != nil {
			o := new(portals.Operation)
			if b := m.byte(); b&1 == 0 && m.table.BeginAck(d.handle, o) || b&1 != 0 && m.table.BeginReply(d.handle, o, int(b>>4)) {
				m.started(o)
			}
		}
	case 8, 9:
		m.finish(int(m.byte()))
	case 10:
		if d := m.some(); d != nil {
			m.unlink(d)
		}
	case 11:
		m.performLazyAction()
	}
}

func (m *matching) attach() {
	d := m.md(true)
	b, c := m.byte(), m.byte()
	d.entry = portals.Entry{
		Portal: uint32(b & 1), Position: portals.Position(b >> 1 & 1), MatchBits: uint64(b >> 2 & 3), IgnoreBits: uint64(b >> 4 & 3),
		Match: lnet.ProcessID{NID: m.nid(c), PID: 1 + lnet.PID(c>>2&1)},
	}
	if c&8 != 0 || d.entry.Portal == 0 {
		d.entry.Match.PID = lnet.PIDAny // so that portal 0 is for wildcards
	}
	h, accepted, dropped, err := m.table.Attach(d.entry, d.md)
	if err != nil {
		return
	}
	m.enter(d, h)
	for o := accepted.Next(); o != nil; o = accepted.Next() {
		m.given(o)
		m.accepted(o)
	}
	m.dropped(dropped)
}

func (m *matching) request() {
	b, c := m.byte(), m.byte()
	o := &portals.Operation{Length: int(c & 7), RemoteOffset: int(c >> 3 & 15), Handle: lnet.NoHandle}
	o.Event.Type = portals.EventPut
	if b&1 != 0 {
		o.Event.Type = portals.EventGet
	}
	o.Event.Portal, o.Event.MatchBits = uint32(b>>1&1), uint64(b>>2&3)
	o.Event.Initiator = lnet.ProcessID{NID: m.nid(b >> 4), PID: 1 + lnet.PID(b>>6&1)}
	if b&128 != 0 {
		o.Aliases = []lnet.NID{m.nid(0), m.nid(1)}
	}
	if c&128 != 0 {
		o.RemoteOffset += 1<<31 - 20
	}
	switch m.table.Match(o) {
	case portals.Accept:
		m.accepted(o)
	case portals.Delay:
		if o.Event.Type != portals.EventPut || !m.lazy[o.Event.Portal] {
			m.t.Fatal("delayed")
		}
		m.unmatched(o)
		m.waiting = append(m.waiting, o)
	case portals.Drop:
		if o.Length == 0 {
			m.unmatched(o) // no length is too large
		}
	}
}

func (m *matching) some() *matchingMD {
	if len(m.mds) == 0 {
		return nil
	}
	return m.mds[int(m.byte())%len(m.mds)]
}

func (m *matching) finish(which int) {
	if len(m.open) == 0 {
		return
	}
	which %= len(m.open)
	o := m.open[which]
	m.open = slices.Delete(m.open, which, which+1)
	d := m.owner(o)
	d.under--
	aborted := d.aborted
	m.table.Finish(o, nil)
	switch {
	case aborted && o.Event.Err == nil || !d.aborted && o.Event.Err != nil:
		m.t.Fatalf("aborted %v, error %v", aborted, o.Event.Err)
	case d.unlinked && d.under == 0 && !d.handling && !d.over:
		m.t.Fatal("the last operation is not the last event")
	case o.Event.Unlinked && d.under > 0:
		m.t.Fatal("the last event of an MD in use")
	}
}

func (m *matching) unlink(d *matchingMD) {
	before := d.unlinked || d.over
	if !before {
		// The handler is called before Unlink returns.
		d.unlinked = true
	}
	err := m.table.Unlink(d.handle)
	d.aborted = d.aborted || err == nil
	switch {
	case before && err == nil:
		m.t.Fatal("unlinked twice")
	case err == nil && d.under == 0 && !d.handling && !d.over:
		m.t.Fatal("no last event")
	case err != nil && !before && !d.md.Unlink:
		m.t.Fatalf("an MD is lost: %v", err)
	}
}

func (m *matching) performLazyAction() {
	b := m.byte()
	p := uint32(b & 1)
	switch b >> 1 & 3 {
	case 0:
		m.expire(int64(b >> 3 & 3))
	case 1:
		if err := m.table.SetLazy(p); err != nil {
			m.t.Fatal(err)
		}
		m.lazy[p] = true
	case 2:
		q, err := m.table.ClearLazy(p)
		if err != nil {
			m.t.Fatal(err)
		}
		m.lazy[p] = false
		m.dropped(q)
		m.left(func(o *portals.Operation) bool { return o.Event.Portal == p })
	case 3:
		long := func(o *portals.Operation) bool { return o.Length > 3 }
		m.dropped(m.table.DropDelayed(long))
		m.left(long)
	}
}

// expire unlinks overdue MDs.
func (m *matching) expire(now int64) {
	for _, o := range m.table.AppendOverdue(nil, now) {
		i := slices.IndexFunc(m.mds, func(d *matchingMD) bool { return d.handle == o.Handle })
		if i < 0 || now < 2 {
			m.t.Fatalf("%v is overdue at %d", o.Handle, now)
		}
		d := m.mds[i]
		was := d.unlinked
		d.unlinked = true // the handler is called before the call returns
		err := m.table.UnlinkOverdue(o.Handle, now)
		d.aborted = d.aborted || err == nil
		switch {
		case was && err == nil:
			m.t.Fatal("unlinked twice")
		case err != nil:
			d.unlinked = was // a handler called before made it go, or wait on
		}
	}
}

// end ends everything in progress. Nothing may be left.
func (m *matching) end() {
	for len(m.open) > 0 {
		m.finish(0)
	}
	for _, o := range m.table.AppendOverdue(nil, 2) {
		if !slices.ContainsFunc(m.mds, func(d *matchingMD) bool { return d.handle == o.Handle && !d.over }) {
			m.t.Fatalf("%v is overdue", o.Handle)
		}
	}
	for i := 0; i < len(m.mds); i++ {
		if d := m.mds[i]; !d.over {
			m.unlink(d)
		}
	}
	m.dropped(m.table.Close())
	for _, d := range m.mds {
		if !d.over || d.under != 0 {
			m.t.Fatalf("MD %v is left, with %d operations", d.handle, d.under)
		}
	}
	if len(m.waiting) != 0 || m.table.Trackers() != 0 {
		m.t.Fatalf("%d delayed and %d trackers are left", len(m.waiting), m.table.Trackers())
	}
}
