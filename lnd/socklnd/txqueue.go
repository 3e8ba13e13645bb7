package socklnd

import "github.com/lnetd/lnetd/lnd"

// txQueue is a FIFO of messages that allocates only while it grows.
type txQueue struct {
	ring []*lnd.Tx // length 0 or a power of two
	head int
	n    int
}

func (q *txQueue) len() int { return q.n }

func (q *txQueue) push(m *lnd.Tx) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = m
	q.n++
}

func (q *txQueue) peek() *lnd.Tx { return q.ring[q.head] }

func (q *txQueue) pop() *lnd.Tx {
	m := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return m
}

// pushFront undoes pop.
func (q *txQueue) pushFront(m *lnd.Tx) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[q.head] = m
	q.n++
}

// withdraw takes out the messages for which match is true, in order.
func (q *txQueue) withdraw(match func(*lnd.Tx) bool) (out []*lnd.Tx) {
	for range q.n {
		if m := q.pop(); match(m) {
			out = append(out, m)
		} else {
			q.push(m)
		}
	}
	return out
}

func (q *txQueue) takeAll() []*lnd.Tx {
	if q.n == 0 {
		return nil
	}
	all := make([]*lnd.Tx, 0, q.n)
	for q.n > 0 {
		all = append(all, q.pop())
	}
	return all
}

func (q *txQueue) grow() {
	ring := make([]*lnd.Tx, max(16, 2*len(q.ring)))
	for k := range q.n {
		ring[k] = q.ring[(q.head+k)&(len(q.ring)-1)]
	}
	q.ring, q.head = ring, 0
}
