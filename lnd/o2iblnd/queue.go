package o2iblnd

import (
	"errors"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// queue is a completion queue, which the queue pairs of many connections share, and its worker.
type queue struct {
	dev  *device
	cq   verbs.CQ
	room int // entries not assigned to a queue pair; guarded by Driver.mu

	mu    sync.RWMutex // guards conns and free
	conns []place
	free  []uint32
}

// place is a connection's slot in its queue. A completion contains the index of the slot and its
// generation, which identifies the connection.
type place struct {
	c          *conn
	generation uint32
}

// A work request's ID:
//
//	 63      60 59           40 39        20 19       0
//	+----------+---------------+------------+----------+
//	| kind     | generation    | place      | number   |
//	+----------+---------------+------------+----------+
const (
	wrRecv  = 1 // number: of the receive buffer
	wrSend  = 2 // number: of the slot
	wrWrite = 3

	fieldBits = 20
	fieldMask = 1<<fieldBits - 1
)

// queueEntries is the size of new completion queues, if the device supports it.
const queueEntries = 16384

// harvest is the maximum number of completions to fetch at a time.
const harvest = 64

// queueFor returns a queue with room for the entries, which it reserves. It creates a queue if the
// existing ones are full, or if there are fewer queues than interrupt vectors and processors.
func (dev *device) queueFor(entries int) (*queue, error) {
	dev.making.Lock()
	defer dev.making.Unlock()
	if q := dev.reserveQueue(entries, min(dev.attr.Vectors, dev.d.workers)); q != nil {
		return q, nil
	}
	size := max(min(queueEntries, dev.attr.MaxCQE), entries)
	cq, err := dev.v.NewCQ(size, dev.vector)
	if err != nil {
		if q := dev.reserveQueue(entries, 0); q != nil {
			return q, nil
		}
		return nil, err
	}
	dev.vector++
	q := &queue{dev: dev, cq: cq, room: size - entries}
	d := dev.d
	d.mu.Lock()
	dev.queues = append(dev.queues, q)
	d.mu.Unlock()
	d.group.Add(1)
	go q.work()
	return q, nil
}

// reserveQueue reserves room in the queue that has the most. It returns nil if no queue has enough room, or
// if there are fewer queues than least.
func (dev *device) reserveQueue(entries, least int) (best *queue) {
	dev.d.mu.Lock()
	defer dev.d.mu.Unlock()
	if len(dev.queues) < least {
		return nil
	}
	for _, q := range dev.queues {
		if q.room >= entries && (best == nil || q.room > best.room) {
			best = q
		}
	}
	if best != nil {
		best.room -= entries
	}
	return best
}

func (q *queue) releaseEntries(entries int) {
	q.dev.d.mu.Lock()
	defer q.dev.d.mu.Unlock()
	q.room += entries
}

// enter assigns a slot to a connection.
func (q *queue) enter(c *conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.free) == 0 {
		q.free = append(q.free, uint32(len(q.conns)))
		q.conns = append(q.conns, place{})
	}
	k := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	p := &q.conns[k]
	p.generation = (p.generation + 1) & fieldMask
	p.c = c
	c.place = k
	c.wr = uint64(p.generation)<<(2*fieldBits) | uint64(k)<<fieldBits
}

func (q *queue) leave(c *conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conns[c.place].c = nil
	q.free = append(q.free, c.place)
}

// batch is a harvest that a worker processes.
type batch struct {
	wc      [harvest]verbs.Completion
	conns   [harvest]*conn
	touched []*conn
	events  events
}

// work processes completions until the queue is closed. Messages that are sent while it processes a
// harvest are posted together at the end.
func (q *queue) work() {
	defer q.dev.d.group.Done()
	b := new(batch)
	for {
		n, err := q.cq.Wait(b.wc[:], q.dev.d.config.Spin)
		if err != nil {
			if !errors.Is(err, verbs.ErrClosed) {
				q.dev.d.log.Error("a completion queue has failed", "device", q.dev.attr.Name, "cause", err)
				q.dev.d.removed(q.dev)
			}
			return
		}
		q.find(b, n)
		now := time.Now()
		for k := range n {
			if c := b.conns[k]; c != nil {
				c.completion(now, &b.wc[k], b)
				b.conns[k] = nil
			}
		}
		for k, c := range b.touched {
			c.uncork()
			b.touched[k] = nil
		}
		b.touched = b.touched[:0]
	}
}

// find looks up the connections of the completions. Completions of connections that have left the queue
// are ignored.
func (q *queue) find(b *batch, n int) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for k := range n {
		id := b.wc[k].WRID
		p := q.conns[id>>fieldBits&fieldMask]
		if p.c != nil && uint64(p.generation) == id>>(2*fieldBits)&fieldMask {
			b.conns[k] = p.c
		}
	}
}
