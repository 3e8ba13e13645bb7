package console

import "math"

// The distribution of a test's clients over its servers (selftest 7.5): dist consecutive clients share span
// consecutive servers. The next dist clients have the next span servers. After the last server, the
// assignment continues with the first.

// servers returns the indices of the servers that client i of a test sends to, out of count servers.
func servers(i, dist, span, count int) []int {
	first := i / dist % count * span % count
	list := make([]int, span)
	for k := range list {
		list[k] = (first + k) % count
	}
	return list
}

// serverLoop returns the loop count in a test's requests to servers, from which a server derives how many
// requests may arrive at a time. It is at most 2^31-1, because a larger value would mean an endless loop.
func serverLoop(clients, count, dist, span, concurrency int) uint32 {
	spans := divide(count, span)
	most := divide(divide(clients, dist), spans)
	// All factors are less than 2^31, so the product does not overflow.
	n := min(most*dist, math.MaxInt32) * concurrency
	return uint32(min(n, math.MaxInt32))
}

// divide returns a/b rounded up. It avoids the usual (a+b-1)/b, because that could overflow.
func divide(a, b int) int {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}
