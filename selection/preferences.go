package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// preferences are the NIDs that a policy prefers. They are NIDs of local NIs, in the order
// of the configuration, or of gateways, in the order of their routes. preferences are
// immutable and shared by all objects that the rule matches.
type preferences struct {
	nids []lnet.NID
	// set holds the same NIDs if there are many; otherwise it is nil.
	set map[lnet.NID]struct{}
}

// setFrom is the number of NIDs from which looking them up in a map is faster than
// searching the list.
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

// has reports whether n is preferred. A nil p prefers no NID.
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

// with returns p and q combined, with the NIDs of p first. It returns p itself if p has
// all NIDs of q.
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
