package portals_test

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// model implements matching as lnet-core describes it, with plain lists, for one goroutine.
// Like the table, it implements implementation.
type model struct {
	created  uint64
	byHandle map[lnet.Handle]*modelMD
	portals  [lnet.Portals]modelPortal
	trackers int
	closed   bool
}

type modelPortal struct {
	class    string
	lazy     bool
	ignoring []*modelMD
	exact    []*modelMD
	delayed  []*exchange
}

type modelMD struct {
	portals.MD
	portals.Entry
	handle             lnet.Handle
	bound              bool
	length             int
	offset             int
	remaining          int // of the threshold
	refs               int
	zombie             bool
	aborted            bool
	handling           bool
	waiting            []portals.Event
	awaited            map[portals.EventType]bool // responses that were asked for
	outstanding        int
	severalOutstanding bool // several responses were outstanding at once
	deadline           int64
	issued             int64
	nextHop            lnet.NID
}

func newModel() *model { return &model{byHandle: map[lnet.Handle]*modelMD{}} }

func (m *model) newMD(d portals.MD, bound bool) *modelMD {
	h := lnet.Handle{Interface: cookie, Object: 4*m.created + 1}
	m.created++
	e := &modelMD{
		MD: d, handle: h, bound: bound, length: len(d.Bytes), remaining: d.Threshold,
		awaited: map[portals.EventType]bool{},
	}
	m.byHandle[h] = e
	return e
}

// 2.2
func (d *modelMD) exhausted() bool {
	return d.remaining == 0 || d.Options&portals.MaxSize != 0 && d.offset+d.MaxSize > d.length
}

func (d *modelMD) use() {
	d.refs++
	if d.remaining > 0 {
		d.remaining--
	}
}

func (d *modelMD) describe(e *portals.Event) {
	e.MD, e.Bytes, e.Options, e.UserPtr = d.handle, d.Bytes, d.Options, d.UserPtr
}

func valid(d *portals.MD) bool {
	return d.Threshold >= -1 && (d.Options&portals.MaxSize == 0 || d.MaxSize >= 0 && d.MaxSize <= len(d.Bytes))
}

// 2.1
func (m *model) attach(e portals.Entry, d portals.MD) (h lnet.Handle, accepted, dropped []*exchange, err error) {
	if e.Portal >= lnet.Portals || d.Options&(portals.OpPut|portals.OpGet) == 0 || !valid(&d) {
		return lnet.NoHandle, nil, nil, portals.ErrInvalid
	}
	if e.Match.NID == (lnet.NID{}) {
		e.Match.NID = lnet.AnyNID
	}
	if e.Match.PID == 0 {
		e.Match.PID = lnet.PIDAny
	}
	class := "wildcard"
	if e.IgnoreBits == 0 && e.Match.NID != lnet.AnyNID && e.Match.PID != lnet.PIDAny {
		class = "unique"
	}
	p := &m.portals[e.Portal]
	if m.closed || p.class != "" && p.class != class {
		m.created++ // the handle is used up
		if m.closed {
			return lnet.NoHandle, nil, nil, portals.ErrClosed
		}
		return lnet.NoHandle, nil, nil, portals.ErrPortalClass
	}
	p.class = class
	f := m.newMD(d, false)
	f.Entry = e
	list := &p.exact
	if e.IgnoreBits != 0 {
		list = &p.ignoring
	}
	if e.Position == portals.Before {
		*list = slices.Insert(*list, 0, f)
	} else {
		*list = append(*list, f)
	}

	// 4.6
	var kept []*exchange
	for _, x := range p.delayed {
		switch v := m.tryMatch(f, x); v {
		case portals.Accept:
			accepted = append(accepted, x)
		case portals.Drop:
			dropped = append(dropped, x)
		default:
			kept = append(kept, x)
		}
	}
	p.delayed = kept
	return f.handle, accepted, dropped, nil
}

// 4.2; the verdict 0 means no match.
func (m *model) tryMatch(d *modelMD, x *exchange) portals.Verdict {
	e := &x.Event
	op := portals.OpPut
	if e.Type == portals.EventGet {
		op = portals.OpGet
	}
	switch {
	case d.zombie, d.exhausted(), d.Options&op == 0:
		return 0
	case (d.MatchBits^e.MatchBits)&^d.IgnoreBits != 0:
		return 0
	case d.Match.PID != lnet.PIDAny && d.Match.PID != e.Initiator.PID:
		return 0
	case d.Match.NID != lnet.AnyNID && d.Match.NID != e.Initiator.NID && !slices.Contains(x.Aliases, d.Match.NID):
		return 0
	}
	offset := d.offset
	if d.Options&portals.ManageRemote != 0 {
		offset = x.RemoteOffset
	}
	room := d.length - offset
	if room < 0 {
		room = 0
	}
	if d.Options&portals.MaxSize != 0 && d.MaxSize < room {
		room = d.MaxSize
	}
	length := x.Length
	if length > room {
		if d.Options&portals.Truncate == 0 {
			return portals.Drop
		}
		length = room
	}
	d.use()
	d.offset = offset + length
	x.on = d
	x.Ack = op == portals.OpPut && x.Handle != lnet.NoHandle && d.Options&portals.AckDisable == 0
	d.describe(e)
	e.Offset, e.Length = offset, length
	if d.exhausted() && d.Unlink {
		m.invalidate(d)
	}
	return portals.Accept
}

// 4.3
func (m *model) match(x *exchange) portals.Verdict {
	if x.Event.Portal >= lnet.Portals || m.closed {
		return portals.Drop
	}
	p := &m.portals[x.Event.Portal]
	for _, d := range slices.Concat(p.ignoring, p.exact) {
		if v := m.tryMatch(d, x); v != 0 {
			return v
		}
	}
	if x.Event.Type == portals.EventPut && p.lazy {
		p.delayed = append(p.delayed, x)
		return portals.Delay
	}
	return portals.Drop
}

func (m *model) setLazy(p uint32) { m.portals[p].lazy = true }

func (m *model) clearLazy(p uint32) []*exchange {
	m.portals[p].lazy = false
	dropped := m.portals[p].delayed
	m.portals[p].delayed = nil
	return dropped
}

func (m *model) dropDelayed(which func(*exchange) bool) (dropped []*exchange) {
	for i := range m.portals {
		var kept []*exchange
		for _, x := range m.portals[i].delayed {
			if which(x) {
				dropped = append(dropped, x)
			} else {
				kept = append(kept, x)
			}
		}
		m.portals[i].delayed = kept
	}
	return dropped
}

func (m *model) close() []*exchange {
	m.closed = true
	for _, d := range m.byHandle {
		m.untrack(d)
	}
	m.byHandle = nil
	return m.dropDelayed(func(*exchange) bool { return true })
}

func (m *model) bind(d portals.MD) (lnet.Handle, error) {
	if d.Options&(portals.OpPut|portals.OpGet) != 0 || !valid(&d) {
		return lnet.NoHandle, portals.ErrInvalid
	}
	return m.newMD(d, true).handle, nil
}

// invalidate makes d a zombie, which neither matching nor its handle finds.
func (m *model) invalidate(d *modelMD) {
	d.zombie = true
	delete(m.byHandle, d.handle)
	same := func(e *modelMD) bool { return e == d }
	p := &m.portals[d.Portal]
	p.ignoring = slices.DeleteFunc(p.ignoring, same)
	p.exact = slices.DeleteFunc(p.exact, same)
}

// 2.2
func (m *model) unlink(h lnet.Handle) error {
	d := m.byHandle[h]
	if d == nil {
		return portals.ErrNotFound
	}
	d.aborted = true
	m.untrack(d)
	m.invalidate(d)
	if d.refs == 0 {
		e := portals.Event{Type: portals.EventUnlink, Unlinked: true}
		d.describe(&e)
		m.deliver(d, e)
	}
	return nil
}

// 3.3
func (m *model) deliver(d *modelMD, e portals.Event) {
	if d.Handler == nil {
		return
	}
	d.waiting = append(d.waiting, e)
	if d.handling {
		return
	}
	d.handling = true
	for len(d.waiting) > 0 {
		e := d.waiting[0]
		d.waiting = d.waiting[1:]
		d.Handler.HandleEvent(&e)
	}
	d.handling = false
}

// usable returns the MD of a request or a response (lnet-core 6.1, 5.5), or nil.
func (m *model) usable(h lnet.Handle) *modelMD {
	if d := m.byHandle[h]; d != nil && d.bound && d.remaining != 0 {
		return d
	}
	return nil
}

// 6.1, 6.2, 6.4
func (m *model) begin(h lnet.Handle, x *exchange, b portals.Begin) (int, error) {
	d := m.usable(h)
	if d == nil {
		return 0, portals.ErrNotFound
	}
	d.use()
	x.on, x.response = d, b.Response
	e := &x.Event
	e.Type, e.MsgType, e.Length, e.Requested = portals.EventSend, b.Type, d.length, d.length
	d.describe(e)
	if !b.Response {
		return d.length, nil
	}
	d.outstanding++
	if d.outstanding > 1 {
		d.severalOutstanding = true
	}
	if b.Type == lnet.MsgGet {
		d.awaited[portals.EventReply] = true
	} else {
		d.awaited[portals.EventAck] = true
	}
	track := b.Track
	if d.Options&portals.TrackResponse != 0 {
		track = true
	}
	if d.Options&portals.NoTrackResponse != 0 {
		track = false
	}
	if track {
		if d.deadline == 0 {
			m.trackers++
		}
		d.deadline, d.issued, d.nextHop = b.Deadline, b.Now, b.NextHop
	}
	return d.length, nil
}

func (m *model) setNextHop(x *exchange, hop lnet.NID) {
	if x.response && x.on.deadline != 0 {
		x.on.nextHop = hop
	}
}

func (m *model) aborted(x *exchange) bool { return x.on.aborted }

// 5.5, 5.6
func (m *model) take(h lnet.Handle, x *exchange, t portals.EventType, payload int) bool {
	d := m.usable(h)
	if d == nil || !d.awaited[t] {
		return false
	}
	if t == portals.EventReply {
		if payload > d.length && d.Options&portals.Truncate == 0 {
			return false
		}
		x.Event.Length = min(payload, d.length)
	}
	d.use()
	x.on, x.response = d, false
	x.Event.Type = t
	d.describe(&x.Event)
	x.Issued = 0
	if d.deadline != 0 {
		x.Issued = d.issued
	}
	return true
}

func (m *model) untrack(d *modelMD) {
	if d.deadline != 0 {
		d.deadline = 0
		m.trackers--
	}
}

// 3.4; the wait for a response also ends here, if there was only one.
func (m *model) finish(x *exchange, err error) {
	d, e := x.on, &x.Event
	x.on = nil
	d.refs--
	if err == nil && d.aborted {
		err = portals.ErrTimedOut
	}
	e.Err = err
	if e.Type == portals.EventAck || e.Type == portals.EventReply {
		d.outstanding = max(0, d.outstanding-1)
	}
	e.Unlinked = d.refs == 0 && (d.zombie || d.Unlink && d.exhausted())
	if e.Unlinked || d.refs == 0 && d.remaining < 0 || d.outstanding == 0 && !d.severalOutstanding {
		m.untrack(d)
	}
	if e.Unlinked && !d.zombie {
		m.invalidate(d)
	}
	m.deliver(d, *e)
}

func (m *model) memory(x *exchange) (offset, length int) {
	switch x.Event.Type {
	case portals.EventPut, portals.EventGet:
		return x.Event.Offset, x.Event.Length
	case portals.EventSend:
		return 0, x.on.length
	case portals.EventReply:
		return 0, x.Event.Length
	}
	return 0, 0
}

func (m *model) overdue(now int64) (list []portals.Overdue) {
	for h, d := range m.byHandle {
		if d.deadline != 0 && d.deadline <= now {
			list = append(list, portals.Overdue{Handle: h, NextHop: d.nextHop})
		}
	}
	return list
}

// 6.4
func (m *model) unlinkOverdue(h lnet.Handle, now int64) error {
	if d := m.byHandle[h]; d == nil || d.deadline == 0 || d.deadline > now {
		return portals.ErrNotFound
	}
	return m.unlink(h)
}

func (m *model) tracked() int { return m.trackers }
