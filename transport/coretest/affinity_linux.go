package coretest

import "golang.org/x/sys/unix"

// canConfine reports whether this system supports Confine.
const canConfine = true

// affinity returns the processors that the calling thread may run on, in order.
func affinity() (processors []int, err error) {
	var set unix.CPUSet
	err = unix.SchedGetaffinity(0, &set)
	for p := range 64 * len(set) {
		if set.IsSet(p) {
			processors = append(processors, p)
		}
	}
	return processors, err
}
