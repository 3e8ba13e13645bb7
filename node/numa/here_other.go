//go:build !linux

package numa

import "github.com/lnetd/lnetd/selection"

// Here is the CPT of the processor that the caller runs on: nobody knows.
func (m *Machine) Here() int { return selection.UnknownCPT }

// pageNodes returns nil: nothing says where pages are.
func pageNodes([]uintptr) []int { return nil }
