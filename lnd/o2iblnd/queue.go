package o2iblnd

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// queue is a completion queue, with the worker that processes its completions. Many connections share it.
type queue struct {
	dev  *device
	cq   verbs.CQ
	room int // entries that are not reserved for a connection; guarded by Driver.mu

	awaited atomic.Int64 // SENDs in flight whose completions are not deferred (verbs.CQ.Defer)

	mu    sync.RWMutex // guards conns and free
	conns []place      // connections by index
	free  []uint32     // indexes in conns without a connection
}

// place is an entry of queue.conns. The ID of each work request, which its completion contains, has the entry's
// index and generation. The generation changes when the entry gets another connection. So a late completion of
// the former one is not mistaken for one of the new connection.
type place struct {
	c          *conn
	generation uint32
}

// The ID of a work request:
//
//	 63      60 59           40 39        20 19       0
//	+----------+---------------+------------+----------+
//	| kind     | generation    | place      | number   |
//	+----------+---------------+------------+----------+
const (
	wrRecv  = 1 // a receive; number is the index of the receive buffer
	wrSend  = 2 // a SEND or the last WRITE of a part; number is the index of the send buffer
	wrWrite = 3 // any other WRITE; number is not used

	fieldBits = 20
	fieldMask = 1<<fieldBits - 1
)

// queueEntries is the size of new completion queues, if the device supports it.
const queueEntries = 16384

// harvest is the maximum number of completions that a worker fetches at a time.
const harvest = 64

// queueFor returns a completion queue in which it has reserved the given number of entries. It creates a queue
// if the existing ones are full, or if the device has fewer queues than interrupt vectors and the process has
// more processors than the device has queues.
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

// reserveQueue reserves entries in the queue that has the most room, and returns it. It returns nil if no queue
// has enough room, or if the device has fewer than least queues.
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

// releaseEntries returns entries that queueFor has reserved.
func (q *queue) releaseEntries(entries int) {
	q.dev.d.mu.Lock()
	defer q.dev.d.mu.Unlock()
	q.room += entries
}

// enter adds a connection to q.conns, so that its completions can be assigned to it.
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

// leave removes a connection from q.conns. Its later completions are ignored.
func (q *queue) leave(c *conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conns[c.place].c = nil
	q.free = append(q.free, c.place)
	q.awaited.Add(-int64(c.awaiting))
}

// await counts n SENDs that are about to be posted, and makes their completions wake the worker.
func (q *queue) await(n int) {
	if n > 0 {
		q.awaited.Add(int64(n))
		q.cq.Defer(false)
	}
}

// wait waits for completions and returns their number. While no completion of a SEND is awaited, it defers them.
func (q *queue) wait(wc []verbs.Completion) (int, error) {
	q.cq.Defer(true)
	if q.awaited.Load() > 0 { // checked afterwards, because of a concurrent await
		q.cq.Defer(false)
	}
	return q.cq.Wait(wc, q.dev.d.config.Spin)
}

// batch is a harvest: the completions that a worker has fetched and is processing.
type batch struct {
	wc      [harvest]verbs.Completion
	conns   [harvest]*conn // the connection of each completion; nil if it has left the queue
	touched []*conn        // connections whose SENDs are to be posted at the end
	events  events         // scratch space
}

// work is the worker, a goroutine that processes completions until the queue is closed. SENDs that result from
// a harvest are posted together at its end.
func (q *queue) work() {
	defer q.dev.d.group.Done()
	b := new(batch)
	for {
		n, err := q.wait(b.wc[:])
		if err != nil {
			if !errors.Is(err, verbs.ErrClosed) {
				q.dev.d.log.Error("cannot read a completion queue of an RDMA device; connections on the device are closed", "device", q.dev.attr.Name, "cause", err)
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

// find stores the connections of the first n completions in b.conns. It ignores completions of connections that
// have left the queue.
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
