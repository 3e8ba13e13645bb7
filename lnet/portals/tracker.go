package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Overdue is a request whose response has not come in time.
type Overdue struct {
	// Handle is the MD that the request was made from.
	Handle lnet.Handle
	// Hop is the neighbour that the request went to last.
	Hop lnet.NID
}

// tracks says whether a response is to be watched, where the caller's
// parameter says parameter. d.mu is held.
func (d *md) tracks(parameter bool) bool {
	if d.options&NoTrackResponse != 0 {
		return false
	}
	return parameter || d.options&TrackResponse != 0
}

// track starts to wait for the response to a request, or moves the deadline of
// the wait (lnet-core 6.4). d.mu is held.
func (t *Table) track(d *md, b *Begin) {
	if d.deadline.Swap(b.Deadline) == 0 {
		t.handles.shard(d.handle.Object).trackers.Add(1)
	}
	d.issued = b.Now
	d.hop = b.Hop
}

// untrack ends the wait, if there is one. d.mu is held.
func (t *Table) untrack(d *md) { t.handles.shard(d.handle.Object).untrack(d) }

// untrack ends the wait of an MD of the shard, if there is one.
func (s *handleShard) untrack(d *md) {
	if d.deadline.Swap(0) != 0 {
		s.trackers.Add(-1)
	}
}

// answered says that no response is outstanding. Kernels wait on for an MD
// with operations left, and unlink it though it was answered. Here the wait
// ends with the response, but only if there never was more than one to wait
// for at a time: else the ACK that is one too many from one peer would pass for
// that of another who never answered. A request whose sending failed is
// outstanding for good, so that the program hears an UNLINK event at least.
// d.mu is held.
func (d *md) answered() bool { return d.due == 0 && !d.several }

// overdue says that a response is watched, and should have come by now. While
// d.mu is not held, this may change.
func (d *md) overdue(now int64) bool {
	deadline := d.deadline.Load()
	return deadline != 0 && deadline <= now
}

// Rehop notes that the request o, which has not ended, goes to another
// neighbour than Begin said.
func (t *Table) Rehop(o *Operation, hop lnet.NID) {
	if !o.answered {
		return
	}
	d := o.md
	d.mu.Lock()
	if d.deadline.Load() != 0 {
		d.hop = hop
	}
	d.mu.Unlock()
}

// Awaits is the neighbour that the last request of an MD went to whose response is
// watched for; zero if none is.
func (t *Table) Awaits(h lnet.Handle) lnet.NID {
	d := t.find(h)
	if d == nil {
		return lnet.NID{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handle != h || d.zombie || d.deadline.Load() == 0 {
		return lnet.NID{}
	}
	return d.hop
}

// Trackers is the number of MDs whose response is watched.
func (t *Table) Trackers() int {
	n := int64(0)
	for i := range t.handles.shards {
		n += t.handles.shards[i].trackers.Load()
	}
	return int(n)
}

// AppendOverdue appends the watched requests whose deadline is now or earlier,
// for the caller to call UnlinkOverdue. It looks at a few MDs at a time, so that
// others go on meanwhile; those with nothing to watch cost nothing but their
// place.
func (t *Table) AppendOverdue(dst []Overdue, now int64) []Overdue {
	return t.appendWatched(dst, now, func(d *md) bool { return d.overdue(now) })
}

// appendWatched appends the watched requests whose deadline is until or earlier and for
// whose MDs match, called with their mu held, is true.
func (t *Table) appendWatched(dst []Overdue, until int64, match func(d *md) bool) []Overdue {
	first := len(dst)
	for i := range t.handles.shards {
		if s := &t.handles.shards[i]; s.trackers.Load() > 0 {
			dst = s.appendWatched(dst, until)
		}
	}
	// What else there is to ask is the MDs' own secret, whose locks come before
	// those of the shards.
	found := dst[first:]
	dst = dst[:first]
	for _, o := range found {
		d := t.find(o.Handle)
		if d == nil {
			continue
		}
		d.mu.Lock()
		if d.handle == o.Handle && !d.zombie && match(d) {
			dst = append(dst, Overdue{Handle: o.Handle, Hop: d.hop})
		}
		d.mu.Unlock()
	}
	return dst
}

// UnlinkOverdue is Unlink for what AppendOverdue found. It looks again whether a
// response is watched and its deadline is now or earlier: if the response has
// come in the meantime, or another request was made, the MD stays, and the error
// is ErrNotFound.
func (t *Table) UnlinkOverdue(h lnet.Handle, now int64) error {
	d := t.hold(h)
	if d == nil {
		return fmt.Errorf("unlink %s: %w", h, ErrNotFound)
	}
	if !d.overdue(now) {
		d.release()
		return fmt.Errorf("unlink %s: not overdue: %w", h, ErrNotFound)
	}
	t.unlink(d)
	return nil
}
