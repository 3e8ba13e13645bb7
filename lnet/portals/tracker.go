package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Overdue is a request whose response is overdue.
type Overdue struct {
	// Handle is the MD that the request was made from.
	Handle lnet.Handle
	// NextHop is the neighbour that the request was last sent to.
	NextHop lnet.NID
}

// tracks reports whether a response must be tracked. parameter is the caller's choice. d.mu
// is held.
func (d *md) tracks(parameter bool) bool {
	if d.options&NoTrackResponse != 0 {
		return false
	}
	return parameter || d.options&TrackResponse != 0
}

// track starts to wait for the response to a request, or changes the deadline of the wait
// (lnet-core 6.4). d.mu is held.
func (t *Table) track(d *md, b *Begin) {
	if d.deadline.Swap(b.Deadline) == 0 {
		t.handles.shard(d.handle.Object).trackers.Add(1)
	}
	d.issued = b.Now
	d.nextHop = b.NextHop
}

// untrack ends the wait for a response to d. It does nothing if d is not tracked. d.mu is
// held.
func (t *Table) untrack(d *md) { t.handles.shard(d.handle.Object).untrack(d) }

// untrack ends the wait for a response to d, an MD of the shard.
func (s *handleShard) untrack(d *md) {
	if d.deadline.Swap(0) != 0 {
		s.trackers.Add(-1)
	}
}

// answered reports whether no response is outstanding. Kernels keep waiting if the MD has
// operations left, and unlink it although it was answered. Here the wait ends with the
// response, but only if the MD never waited for several responses at once. Otherwise a
// duplicate ACK from one peer would count as the ACK of another peer that never answered. A
// request that could not be sent stays outstanding, so that the program at least gets an
// UNLINK event. d.mu is held.
func (d *md) answered() bool { return d.outstanding == 0 && !d.severalOutstanding }

// overdue reports whether a response is tracked and its deadline has passed. Unless d.mu is
// held, the result may change at any time.
func (d *md) overdue(now int64) bool {
	deadline := d.deadline.Load()
	return deadline != 0 && deadline <= now
}

// SetNextHop records that the request o, which has not ended, is sent to another neighbour than
// the one passed to Begin.
func (t *Table) SetNextHop(o *Operation, hop lnet.NID) {
	if !o.wantsResponse {
		return
	}
	d := o.md
	d.mu.Lock()
	if d.deadline.Load() != 0 {
		d.nextHop = hop
	}
	d.mu.Unlock()
}

// NextHop returns the neighbour that the last tracked request from the MD was sent to. It
// returns the zero NID if no response is tracked.
func (t *Table) NextHop(h lnet.Handle) lnet.NID {
	d := t.find(h)
	if d == nil {
		return lnet.NID{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handle != h || d.zombie || d.deadline.Load() == 0 {
		return lnet.NID{}
	}
	return d.nextHop
}

// Trackers returns the number of MDs whose response is tracked.
func (t *Table) Trackers() int {
	n := int64(0)
	for i := range t.handles.shards {
		n += t.handles.shards[i].trackers.Load()
	}
	return int(n)
}

// AppendOverdue appends the tracked requests whose deadline is now or earlier. The caller
// then calls UnlinkOverdue. AppendOverdue holds each lock only for a few MDs at a time.
// Parts of the table without tracked requests are skipped.
func (t *Table) AppendOverdue(dst []Overdue, now int64) []Overdue {
	return t.appendExpired(dst, now, func(d *md) bool { return d.overdue(now) })
}

// appendExpired appends the tracked requests whose deadline is until or earlier and for
// whose MD match returns true. match is called with the MD's mu held.
func (t *Table) appendExpired(dst []Overdue, until int64, match func(d *md) bool) []Overdue {
	first := len(dst)
	for i := range t.handles.shards {
		if s := &t.handles.shards[i]; s.trackers.Load() > 0 {
			dst = s.appendExpired(dst, until)
		}
	}
	// The rest of the check needs the locks of the MDs, which come before those of the
	// shards in the lock order.
	found := dst[first:]
	dst = dst[:first]
	for _, o := range found {
		d := t.find(o.Handle)
		if d == nil {
			continue
		}
		d.mu.Lock()
		if d.handle == o.Handle && !d.zombie && match(d) {
			dst = append(dst, Overdue{Handle: o.Handle, NextHop: d.nextHop})
		}
		d.mu.Unlock()
	}
	return dst
}

// UnlinkOverdue is like Unlink for a request from AppendOverdue. It first checks again that
// a response is tracked whose deadline is now or earlier. If the response has arrived
// since, or another request was made, the MD stays and the error is ErrNotFound.
func (t *Table) UnlinkOverdue(h lnet.Handle, now int64) error {
	d := t.lockMD(h)
	if d == nil {
		return fmt.Errorf("unlink MD %s: %w", h, ErrNotFound)
	}
	if !d.overdue(now) {
		d.release()
		return fmt.Errorf("unlink MD %s: it has no overdue response: %w", h, ErrNotFound)
	}
	t.unlink(d)
	return nil
}
