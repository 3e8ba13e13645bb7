package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// delayedMax is the maximum number of PUTs that wait on a portal. It is needed because any
// peer can send such PUTs, and each holds a receive buffer of its driver. It equals the
// number of answers that a node queues for one neighbour.
const delayedMax = 16384

// offerDelayed offers the PUTs that wait on the portal to the MD d of a new entry, in
// order, until d is used up (lnet-core 4.6). It returns the PUTs that d accepted, and
// those that matched but must be dropped. p.mu must be held.
func (t *Table) offerDelayed(p *portal, d *md) (accepted, dropped Operations) {
	var kept Operations
	for d.indexEntry.shape != nil { // until d is used up
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
	kept.appendAll(&p.delayed)
	p.delayed = kept
	return accepted, dropped
}

// SetLazy makes the portal lazy: PUTs that match no entry wait for one instead of being
// dropped. If 16384 PUTs are waiting, further ones are dropped. The error is ErrInvalid,
// or ErrTaken if some of the portal's match bits are claimed.
func (t *Table) SetLazy(portal uint32) error {
	if portal >= lnet.Portals {
		return fmt.Errorf("portal %d: the number must be below %d: %w", portal, lnet.Portals, ErrInvalid)
	}
	p := &t.portals[portal]
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.claims) > 0 {
		return fmt.Errorf("portal %d cannot become lazy: some of its match bits are claimed: %w", portal, ErrTaken)
	}
	p.lazy = true
	return nil
}

// ClearLazy undoes SetLazy. It returns the PUTs that were waiting on the portal; the
// caller must drop them. The error is ErrInvalid.
func (t *Table) ClearLazy(portal uint32) (dropped Operations, err error) {
	if portal >= lnet.Portals {
		return dropped, fmt.Errorf("portal %d: the number must be below %d: %w", portal, lnet.Portals, ErrInvalid)
	}
	p := &t.portals[portal]
	p.mu.Lock()
	p.lazy = false
	dropped, p.delayed = p.delayed, Operations{}
	p.mu.Unlock()
	return dropped, nil
}

// DropDelayed removes the waiting PUTs for which match returns true from all portals, and
// returns them; the caller must drop them. If match is nil, it removes all waiting PUTs.
// match is called with a lock held: it may read the operation, but must not call the
// table.
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
