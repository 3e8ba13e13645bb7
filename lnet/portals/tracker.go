package portals

import "github.com/lnetd/lnetd/lnet"

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
	if d.deadline.Load() == 0 {
		t.handles.shard(d.handle.Object).trackers.Add(1)
	}
	d.deadline.Store(b.Deadline)
	d.issued = b.Now
	d.hop = b.Hop
}

// untrack ends the wait, if there is one. d.mu is held.
func (t *Table) untrack(d *md) {
	if d.deadline.Load() != 0 {
		d.deadline.Store(0)
		t.handles.shard(d.handle.Object).trackers.Add(-1)
	}
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

// Trackers is the number of MDs whose response is watched.
func (t *Table) Trackers() int {
	n := int64(0)
	for i := range t.handles.shards {
		n += t.handles.shards[i].trackers.Load()
	}
	return int(n)
}

// AppendOverdue appends the watched requests whose deadline is now or earlier,
// for the caller to Unlink. It looks at a few MDs at a time, so that others go
// on meanwhile; those with nothing to watch cost nothing but their place.
func (t *Table) AppendOverdue(dst []Overdue, now int64) []Overdue {
	first := len(dst)
	for i := range t.handles.shards {
		if s := &t.handles.shards[i]; s.trackers.Load() > 0 {
			dst = s.appendOverdue(dst, now)
		}
	}
	// The neighbours are the MDs' own secret, whose locks come before those
	// of the shards.
	found := dst[first:]
	dst = dst[:first]
	for _, o := range found {
		d := t.find(o.Handle)
		if d == nil {
			continue
		}
		d.mu.Lock()
		deadline := d.deadline.Load()
		if d.handle == o.Handle && !d.zombie && deadline != 0 && deadline <= now {
			dst = append(dst, Overdue{Handle: o.Handle, Hop: d.hop})
		}
		d.mu.Unlock()
	}
	return dst
}
