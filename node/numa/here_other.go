//go:build !linux

package numa

import "github.com/lnetd/lnetd/selection"

// Here returns selection.UnknownCPT, because this operating system does not report the
// processor.
func (m *Machine) Here() int { return selection.UnknownCPT }

// pageNodes returns nil, because this operating system does not report where pages are.
func pageNodes([]uintptr) []int { return nil }
