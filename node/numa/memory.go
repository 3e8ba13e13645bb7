package numa

import (
	"slices"
	"unsafe"

	"github.com/lnetd/lnetd/selection"
)

// samples is the number of pages that OfMemory checks. More would not be worth the cost,
// because memory is normally on one node.
const samples = 16

// OfMemory returns the CPT nearest to b. It returns selection.UnknownCPT if parts of b
// are on different nodes, or if no page of b has been used yet. settled reports whether
// the result is final: unused pages may be allocated on any node later. It costs a system
// call.
func (m *Machine) OfMemory(b []byte) (cpt int, settled bool) {
	if len(m.nodes) < 2 || len(b) == 0 {
		return selection.UnknownCPT, true
	}
	look := m.Pages
	if look == nil {
		look = pageNodes
	}
	cpt, settled = selection.UnknownCPT, true
	node := -1
	for _, n := range look(sample(b)) {
		switch {
		case n < 0:
			settled = false
		case node >= 0 && n != node:
			return selection.UnknownCPT, true
		default:
			node = n
		}
	}
	if node >= 0 {
		cpt = slices.Index(m.nodes, node)
	}
	return cpt, settled
}

// sample returns addresses in b, including the first and the last one.
func sample(b []byte) []uintptr {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	n := min(samples, len(b))
	addrs := make([]uintptr, n)
	for k := range addrs {
		addrs[k] = first + uintptr((len(b)-1)*k/max(n-1, 1))
	}
	return addrs
}
