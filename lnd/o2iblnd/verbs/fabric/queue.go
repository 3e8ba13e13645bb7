package fabric

// queue is a FIFO queue that allocates only when it grows.
type queue[T any] struct {
	ring    []T
	head, n int
}

func (q *queue[T]) push(v T) {
	if q.n == len(q.ring) {
		ring := make([]T, max(2*q.n, 16))
		for k := range q.n {
			ring[k] = *q.at(k)
		}
		q.ring, q.head = ring, 0
	}
	*q.at(q.n) = v
	q.n++
}

// at returns the k-th element. If k is the length of the queue, it returns the place of the next element.
func (q *queue[T]) at(k int) *T {
	if k += q.head; k >= len(q.ring) {
		k -= len(q.ring)
	}
	return &q.ring[k]
}

func (q *queue[T]) pop() (v T) {
	v, *q.at(0) = *q.at(0), v
	if q.head++; q.head == len(q.ring) {
		q.head = 0
	}
	q.n--
	return v
}
