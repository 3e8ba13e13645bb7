package socklnd

import "github.com/lnetd/lnetd/lnd"

// txQueue is a FIFO queue of messages that allocates only while it grows. Urgent messages precede all
// others.
type txQueue struct {
	ring   []*lnd.Tx // length 0 or a power of two
	head   int
	n      int
	urgent int // number of urgent messages, which come first
}

func (q *txQueue) len() int { return q.n }

func (q *txQueue) push(m *lnd.Tx) {
	if m.Urgent {
		q.insert(m, q.urgent)
		q.urgent++
		return
	}
	if q.n == len(q.ring) {
		q.grow()
	}
	*q.at(q.n) = m
	q.n++
}

// at returns the slot of message k; message 0 is the first in the queue.
func (q *txQueue) at(k int) **lnd.Tx { return &q.ring[(q.head+k)&(len(q.ring)-1)] }

// insert inserts m before message k. It moves the messages before k by one slot; these are urgent ones, of
// which there are few.
func (q *txQueue) insert(m *lnd.Tx, k int) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.head = (q.head - 1) & (len(q.ring) - 1)
	for j := range k {
		*q.at(j) = *q.at(j + 1)
	}
	*q.at(k) = m
	q.n++
}

func (q *txQueue) peek() *lnd.Tx { return q.ring[q.head] }

func (q *txQueue) pop() *lnd.Tx {
	m := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	q.urgent = max(q.urgent-1, 0)
	return m
}

// pushFront puts m, which pop returned last, back to the front of the queue.
func (q *txQueue) pushFront(m *lnd.Tx) {
	if m.Urgent {
		q.insert(m, 0)
		q.urgent++
		return
	}
	q.insert(m, q.urgent)
}

// withdraw removes the messages for which match returns true and returns them in the order of the queue.
func (q *txQueue) withdraw(match func(*lnd.Tx) bool) (out []*lnd.Tx) {
	kept := 0
	for k := range q.n {
		m := *q.at(k)
		*q.at(k) = nil
		switch {
		case !match(m):
			*q.at(kept) = m
			kept++
			continue
		case m.Urgent:
			q.urgent--
		}
		out = append(out, m)
	}
	q.n = kept
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
