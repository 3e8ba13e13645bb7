package mpilnd

import "github.com/lnetd/lnetd/lnd"

// queue holds messages that were not started: urgent ones first, otherwise in their order. The zero value is empty.
type queue struct {
	urgent, others fifo
}

// fifo is a list from whose beginning elements are removed without copying the others each time.
type fifo struct {
	list []*lnd.Tx
	head int
}

func (f *fifo) len() int { return len(f.list) - f.head }

func (f *fifo) pop() *lnd.Tx {
	tx := f.list[f.head]
	f.list[f.head] = nil
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	} else if f.head > 64 && f.head > len(f.list)/2 {
		f.list, f.head = append(f.list[:0], f.list[f.head:]...), 0
	}
	return tx
}

// remove removes the elements for which match returns true, and appends them to out.
func (f *fifo) remove(match func(*lnd.Tx) bool, out []*lnd.Tx) []*lnd.Tx {
	rest := f.list[f.head:f.head]
	for _, tx := range f.list[f.head:] {
		if match(tx) {
			out = append(out, tx)
		} else {
			rest = append(rest, tx)
		}
	}
	clear(f.list[f.head+len(rest):])
	f.list = f.list[:f.head+len(rest)]
	return out
}

// push adds a message.
func (q *queue) push(tx *lnd.Tx) {
	if tx.Urgent {
		q.urgent.list = append(q.urgent.list, tx)
	} else {
		q.others.list = append(q.others.list, tx)
	}
}

// len returns the number of messages.
func (q *queue) len() int { return q.urgent.len() + q.others.len() }

// next returns the list whose first message is the next one of q. q must not be empty.
func (q *queue) next() *fifo {
	if q.urgent.len() > 0 {
		return &q.urgent
	}
	return &q.others
}

// remove removes and returns the messages for which match returns true.
func (q *queue) remove(match func(*lnd.Tx) bool) []*lnd.Tx {
	return q.others.remove(match, q.urgent.remove(match, nil))
}
