package console

import "math"

// The distribution of a test's clients over its servers (selftest 7.5): dist
// clients in a row share span servers in a row; the next dist clients have the
// next span servers, and after the last server comes the first.

// servers are the indices of the servers of the i-th client, of count.
func servers(i, dist, span, count int) []int {
	first := i / dist % count * span % count
	list := make([]int, span)
	for k := range list {
		list[k] = (first + k) % count
	}
	return list
}

// serverLoop is the loop count that servers are told, from which they take how
// many requests may come at once: at most 2^31-1, more would mean none.
func serverLoop(clients, count, dist, span, concurrency int) uint32 {
	spans := divide(count, span)
	most := divide(divide(clients, dist), spans)
	// Each factor is below 2^31: no product of two overflows.
	n := min(most*dist, math.MaxInt32) * concurrency
	return uint32(min(n, math.MaxInt32))
}

// divide rounds up; a+b may not fit.
func divide(a, b int) int {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}
