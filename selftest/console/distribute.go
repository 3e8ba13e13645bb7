package console

import "math"

// The distribution of a test's clients over its servers (selftest 7.5): dist consecutive clients share
// span consecutive servers. The next dist clients have the next span servers. The first server follows
// the last.

// servers returns the indices of the servers of client i, out of count servers.
func servers(i, dist, span, count int) []int {
	first := i / dist % count * span % count
	list := make([]int, span)
	for k := range list {
		list[k] = (first + k) % count
	}
	return list
}

// serverLoop returns the loop count in requests to servers. From it, servers derive how many requests may
// come at once. It is at most 2^31-1: a larger value would mean none.
func serverLoop(clients, count, dist, span, concurrency int) uint32 {
	spans := divide(count, span)
	most := divide(divide(clients, dist), spans)
	// All factors are below 2^31, so no product of two overflows.
	n := min(most*dist, math.MaxInt32) * concurrency
	return uint32(min(n, math.MaxInt32))
}

// divide returns a/b rounded up. It does not compute a+b, which might overflow.
func divide(a, b int) int {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}
