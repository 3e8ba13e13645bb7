package coretest

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/transport"
)

// end checks the final state of a concurrent run. mu is held.
func (w *concurrentRun) end() {
	for slot, m := range w.tms {
		if m.state != transport.StateStopped || w.stops[slot] != 1 || len(m.pendingEvents) > 0 || atomic.LoadInt32(&m.running) != 0 {
			w.fail("TM %d is %v; it was stopped %d times", slot, m.state, w.stops[slot])
		}
		cancels := 0
		for q, got := range m.real.AllStats() {
			want := m.stats[q]
			cancels += int(got.Cancels)
			if m.pool == nil || q != int(transport.MsgRecv) {
				want.Adds = m.adds[q]
			} else {
				want.Adds = got.Adds // the TM also adds buffers of the pool, and deficits count as failures
				want.Failures = max(want.Failures, got.Failures)
			}
			want.Cancels, want.TimeInQueue = got.Cancels, got.TimeInQueue
			if got != want {
				w.fail("TM %d, %v: %+v, not %+v", slot, transport.QueueType(q), got, want)
			}
		}
		if cancels < m.cancels || cancels > m.cancels && !m.aborted {
			w.fail("TM %d: %d cancels, not %d", slot, cancels, m.cancels)
		}
		if m.closed {
			w.tms[slot] = nil
		} else {
			w.close(m)
		}
	}
	for _, b := range w.buffers {
		if b.adds != b.finals || b.pool == nil && b.where != withProgram || b.pool != nil && b.where != withPool {
			w.fail("a buffer was added %d times, and had %d final events; it is %d", b.adds, b.finals, b.where)
		}
	}
	for _, p := range w.pools {
		w.relearn(p)
	}
}

// relearn checks that all buffers of a pool are free. It then takes them out and puts them back, so that the
// model has them in the same order as the pool.
func (w *concurrentRun) relearn(p *poolModel) {
	size, n := p.real.Size(), 0
	if size != len(p.free)+p.out {
		w.fail("pool %d has %d buffers, not %d", p.host, size, len(p.free)+p.out)
	}
	var all []*bufferModel
	for b := p.real.Get(transport.AnyColour); b != nil; b = p.real.Get(transport.AnyColour) {
		t := w.pooled(p, b)
		t.where = withProgram
		all = append(all, t)
		n++
	}
	if n != size {
		w.fail("pool %d has %d free buffers of %d", p.host, n, size)
	}
	p.free, p.out = nil, n
	for _, t := range all {
		w.put(t, transport.AnyColour)
	}
}
