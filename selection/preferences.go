package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// preferences are the NIDs that a policy prefers: of local NIs, in the order of
// configuration, or of gateways, in that of their routes. They never change, and
// all whom a rule is about share them.
type preferences struct {
	nids []lnet.NID
	// set has the same, if there are many.
	set map[lnet.NID]struct{}
}

// setFrom is the number of NIDs from which on a set finds one faster.
const setFrom = 64

func newPreferences(nids []lnet.NID) *preferences {
	if len(nids) == 0 {
		return nil
	}
	p := &preferences{nids: nids}
	if len(nids) >= setFrom {
		p.set = make(map[lnet.NID]struct{}, len(nids))
		for _, n := range nids {
			p.set[n] = struct{}{}
		}
	}
	return p
}

// has tells whether n is preferred; the nil preferences prefer none.
func (p *preferences) has(n lnet.NID) bool {
	if p == nil {
		return false
	}
	if p.set != nil {
		_, ok := p.set[n]
		return ok
	}
	return slices.Contains(p.nids, n)
}

// with returns the preferences of both, in the order of p and then of q. It is p if q adds none.
func (p *preferences) with(q *preferences) *preferences {
	nids := p.nids
	for _, n := range q.nids {
		if !p.has(n) {
			nids = append(slices.Clip(nids), n)
		}
	}
	if len(nids) == len(p.nids) {
		return p
	}
	return newPreferences(nids)
}

func (p *preferences) list() []lnet.NID {
	if p == nil {
		return nil
	}
	return slices.Clone(p.nids)
}

func (p *preferences) equal(q *preferences) bool {
	if p == nil || q == nil {
		return p == q
	}
	return slices.Equal(p.nids, q.nids)
}
