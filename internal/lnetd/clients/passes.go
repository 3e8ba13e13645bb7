package clients

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/memory/shared"
)

// passes lets goroutines that process submissions wake each client once for all completions that they cause in a pass,
// and not for each of them. A pass is a round in the goroutine of a TM, or the rounds of several TMs in a hub. While a
// pass runs, completions leave the wake-up of their client to its end, wherever they come from. It is safe for concurrent
// use.
type passes struct {
	running atomic.Int32
	mu      sync.Mutex // guards left; it is acquired while the mu of a TM is held
	left    []*tm      // the TMs with wakeLeft
}

// begin begins a pass.
func (p *passes) begin() { p.running.Add(1) }

// end ends a pass, and wakes the clients whose wake-up was left to it or to another one.
func (p *passes) end() {
	p.running.Add(-1)
	for t := p.next(); t != nil; t = p.next() {
		t.wakeClient()
	}
}

// next removes the first TM of those whose client must be woken, and returns it. It returns nil if there is none. A
// message arrives before its sender gets a completion, and so its receiver is woken first.
func (p *passes) next() *tm {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left) == 0 {
		return nil
	}
	t := p.left[0]
	p.left = slices.Delete(p.left, 0, 1)
	return t
}

// leave reports whether the end of a pass will wake the client of t for the completions that have been published before
// the call. Otherwise the caller must do so. The caller holds t.mu.
func (p *passes) leave(t *tm) bool {
	if p.running.Load() == 0 {
		return false
	}
	if !t.wakeLeft.Swap(true) {
		p.mu.Lock()
		p.left = append(p.left, t)
		p.mu.Unlock()
	}
	// The end of a pass looks for t after it has stopped counting. So it finds t, if a pass still runs here.
	return p.running.Load() > 0
}

// wakeClient wakes the client if it sleeps. The TM has been removed from those whose client must be woken.
func (t *tm) wakeClient() {
	t.wakeLeft.Store(false) // before Claim, so that later completions leave another wake-up
	t.mu.Lock()
	var wake shared.Wakeup
	var err error
	if !t.ringClosed {
		err = guardFault(func() error { wake = t.ring.Completions.Claim(); return nil })
	}
	t.mu.Unlock()
	t.finishWrite(wake, err)
}
