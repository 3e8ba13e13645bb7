package coretest

import "golang.org/x/sys/unix"

// canConfine says whether this system has what Confine needs.
const canConfine = true

// affinity is the processors that the calling thread may run on, in order.
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
