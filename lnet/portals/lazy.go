package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// delayedMax is how many PUTs may wait on a portal: 16384, as many as a node
// lets answers wait for one neighbour. They hold what their drivers received
// them into, and whoever may send can make them.
const delayedMax = 16384

// offer offers the delayed PUTs to a new entry, in order, until it is used up
// (lnet-core 4.6). p.mu is held.
func (t *Table) offer(p *portal, d *md) (accepted, dropped Operations) {
	var kept Operations
	for d.place.shape != nil { // it is not used up
		o := p.delayed.Next()
		if o == nil {
			break
		}
		if !d.matches(o) {
			kept.push(o)
			continue
		}
		if t.apply(p, d, o) == Accept {
			accepted.push(o)
		} else {
			dropped.push(o)
		}
	}
	kept.join(&p.delayed)
	p.delayed = kept
	return accepted, dropped
}

// SetLazy makes PUTs that no entry takes wait on the portal, instead of being
// dropped. While 16384 wait, further ones are dropped all the same. Errors are
// ErrInvalid, and ErrTaken if part of the portal is claimed.
func (t *Table) SetLazy(portal uint32) error {
	if portal >= lnet.Portals {
		return fmt.Errorf("portal %d: not below %d: %w", portal, lnet.Portals, ErrInvalid)
	}
	p := &t.portals[portal]
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.claims) > 0 {
		return fmt.Errorf("portal %d: %w", portal, ErrTaken)
	}
	p.lazy = true
	return nil
}

// ClearLazy undoes SetLazy and returns what waits on the portal, for the
// caller to give up. The error is ErrInvalid.
func (t *Table) ClearLazy(portal uint32) (dropped Operations, err error) {
	if portal >= lnet.Portals {
		return dropped, fmt.Errorf("portal %d: not below %d: %w", portal, lnet.Portals, ErrInvalid)
	}
	p := &t.portals[portal]
	p.mu.Lock()
	p.lazy = false
	dropped, p.delayed = p.delayed, Operations{}
	p.mu.Unlock()
	return dropped, nil
}

// DropDelayed takes out the delayed PUTs for which match is true, on every
// portal, and returns them for the caller to give up; with nil, all.
// It is called under a lock: it may look at the operation, and must not call
// the table.
func (t *Table) DropDelayed(match func(*Operation) bool) (dropped Operations) {
	for k := range t.portals {
		p := &t.portals[k]
		var kept Operations
		p.mu.Lock()
		for o := p.delayed.Next(); o != nil; o = p.delayed.Next() {
			if match == nil || match(o) {
				dropped.push(o)
			} else {
				kept.push(o)
			}
		}
		p.delayed = kept
		p.mu.Unlock()
	}
	return dropped
}
