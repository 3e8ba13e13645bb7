package numa

import (
	"slices"
	"unsafe"

	"github.com/lnetd/lnetd/selection"
)

// samples is the number of pages that OfMemory checks. Checking more pages is not worth
// the cost, because memory is normally on one NUMA node.
const samples = 16

// OfMemory returns the CPT nearest to b. It returns selection.UnknownCPT if parts of b are
// on different NUMA nodes, if no page of b has been used yet, or if the kernel does not
// report it. settled reports whether the result is final. It is not final if b has unused
// pages, because the kernel chooses a node for a page only when the page is first used.
// OfMemory costs a system call.
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

// sample returns evenly spaced addresses in b, including those of its first and last byte.
func sample(b []byte) []uintptr {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	n := min(samples, len(b))
	addrs := make([]uintptr, n)
	for k := range addrs {
		addrs[k] = first + uintptr((len(b)-1)*k/max(n-1, 1))
	}
	return addrs
}
