package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Overdue is a request whose response is overdue, or will never arrive.
type Overdue struct {
	// Handle is the handle of the MD from which the request was made.
	Handle lnet.Handle
	// NextHop is the neighbour to which the request was last sent.
	NextHop lnet.NID
}

// tracks reports whether the response to a request from d must be tracked. parameter is
// Begin.Track. d.mu must be held.
func (d *md) tracks(parameter bool) bool {
	if d.options&NoTrackResponse != 0 {
		return false
	}
	return parameter || d.options&TrackResponse != 0
}

// track starts to track the response to a request. If a response to d is already tracked,
// track changes its deadline (lnet-core 6.4). d.mu must be held.
func (t *Table) track(d *md, b *Begin) {
	if d.deadline.Swap(b.Deadline) == 0 {
		t.handles.shard(d.handle.Object).trackers.Add(1)
	}
	d.issued = b.Now
	d.nextHop = b.NextHop
}

// untrack ends the tracking of a response to d. It does nothing if no response is tracked.
// d.mu must be held.
func (t *Table) untrack(d *md) { t.handles.shard(d.handle.Object).untrack(d) }

// untrack ends the tracking of a response to d, an MD in the shard.
func (s *handleShard) untrack(d *md) {
	if d.deadline.Swap(0) != 0 {
		s.trackers.Add(-1)
	}
}

// answered reports whether tracking must end because no response is outstanding. It always
// returns false if d ever waited for several responses at once. Otherwise a duplicate ACK
// from one peer would count as the ACK of another peer, which never answered.
//
// Kernels continue to track if the MD has operations left, and so unlink an MD although it
// was answered. A request that could not be sent counts as outstanding, so that the
// program at least receives an UNLINK event. d.mu must be held.
func (d *md) answered() bool { return d.outstanding == 0 && !d.severalOutstanding }

// overdue reports whether a response to d is tracked and its deadline has passed. If d.mu
// is not held, the result may be outdated when overdue returns.
func (d *md) overdue(now int64) bool {
	deadline := d.deadline.Load()
	return deadline != 0 && deadline <= now
}

// SetNextHop records that the request o is sent to another neighbour than the one passed
// to Begin. o must not have ended.
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

// NextHop returns the neighbour to which the last tracked request from the MD h was sent.
// It returns the zero NID if no response is tracked.
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

// Trackers returns the number of MDs with a tracked response.
func (t *Table) Trackers() int {
	n := int64(0)
	for i := range t.handles.shards {
		n += t.handles.shards[i].trackers.Load()
	}
	return int(n)
}

// AppendOverdue appends the tracked requests whose deadline is now or earlier. The caller
// then calls UnlinkOverdue for each. AppendOverdue skips parts of the table without
// tracked requests, and never holds a lock for more than a few MDs.
func (t *Table) AppendOverdue(dst []Overdue, now int64) []Overdue {
	return t.appendExpired(dst, now, func(d *md) bool { return d.overdue(now) })
}

// appendExpired appends the tracked requests whose deadline is until or earlier, if match
// returns true for their MD. match is called with md.mu held.
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

// UnlinkOverdue unlinks an MD that AppendOverdue returned. It is like Unlink, but first
// checks again that a tracked response is overdue. If the response has arrived since, or
// another request was made, the MD is kept and the error is ErrNotFound.
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
