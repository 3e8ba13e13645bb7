package fake

import (
	"container/heap"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// request is a send or a receive.
type request struct {
	owner   *MPI
	comm    comm
	receive bool
	peer    int // or boundary.Any
	tag     int
	b       []byte
	done    boundary.Done
	at      time.Time // when Poll may report it
	order   int       // its place among the requests of the owner that have finished
}

// schedule is a heap of requests, the next one to complete first. Requests of the same time are in the order of order.
type schedule []*request

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, k int) bool {
	return s[i].at.Before(s[k].at) || s[i].at.Equal(s[k].at) && s[i].order < s[k].order
}
func (s schedule) Swap(i, k int) { s[i], s[k] = s[k], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(*request)) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	r := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return r
}

// message is a message that no receive has been matched with.
type message struct {
	from    *MPI
	context *context
	tag     int
	data    []byte
	send    *request  // nil if the send is complete because data is a copy
	at      time.Time // when it arrives
}

// box has the messages of a rank on their way to another, over one communicator.
type box struct {
	from    *MPI
	context *context
	list    []*message
}

// join creates the boxes for messages of the ranks of a job.
func (m *MPI) join(c *context, peers *Job) {
	for _, from := range peers.ranks {
		m.inbox = append(m.inbox, &box{from: from, context: c})
	}
}

// box returns the box for messages of the rank from.
func (m *MPI) box(c *context, from *MPI) *box {
	k := slices.IndexFunc(m.inbox, func(b *box) bool { return b.from == from && b.context == c })
	return m.inbox[k]
}

// fits reports whether the message e can be matched with the receive r.
func (r *request) fits(e *message) bool {
	return r.tag == e.tag && r.comm.context == e.context && (r.peer == boundary.Any || r.peer == e.from.rank)
}

// start registers a request of m. If it has to fail, start completes it and returns false.
func (m *MPI) start(r *request) bool {
	m.requests[r.done.ID] = r
	if m.fails() {
		m.finish(r, ErrFailed)
		return false
	}
	if r.peer != boundary.Any {
		if peer := r.comm.peers.ranks[r.peer]; peer.killed && peer.fate == Fail {
			m.finish(r, ErrKilled)
			return false
		}
	}
	return true
}

// finish completes the request r in a call of m, which may be another rank.
func (m *MPI) finish(r *request, err error) {
	r.done.Err = err
	r.order = r.owner.finished
	r.owner.finished++
	r.at = time.Now().Add(m.delay())
	heap.Push(&r.owner.later, r)
	r.owner.ring()
}

// post puts the message of the send r into the inbox of its receiver. send is nil if it need not be completed.
func (m *MPI) post(r *request, b []byte, send *request) {
	to := r.comm.peers.ranks[r.peer]
	box := to.box(r.comm.context, m)
	e := &message{from: m, context: box.context, tag: r.tag, data: b, send: send, at: time.Now().Add(m.delay())}
	if n := len(box.list); n > 0 && box.list[n-1].at.After(e.at) {
		e.at = box.list[n-1].at
	}
	box.list = append(box.list, e)
	to.ring()
}

// full reports whether the library has no memory for another message to m.
func (m *MPI) full() bool {
	n := len(m.unexpected)
	for _, box := range m.inbox {
		n += len(box.list)
	}
	return n >= m.job.o.Unexpected
}

// progress receives the messages to m that have arrived, in the order of their arrival.
func (m *MPI) progress() {
	now := time.Now()
	for !m.stalled {
		var first *box
		for _, b := range m.inbox {
			if len(b.list) > 0 && !b.list[0].at.After(now) && (first == nil || b.list[0].at.Before(first.list[0].at)) {
				first = b
			}
		}
		if first == nil {
			return
		}
		e := first.list[0]
		first.list[0] = nil
		first.list = first.list[1:]
		m.arrive(e)
	}
}

// arrive matches a message with the first receive that fits.
func (m *MPI) arrive(e *message) {
	k := slices.IndexFunc(m.receives, func(r *request) bool { return r.fits(e) })
	if k < 0 {
		m.unexpected = append(m.unexpected, e)
		return
	}
	r := m.receives[k]
	m.receives = slices.Delete(m.receives, k, k+1)
	m.match(r, e)
}

// match completes a receive of m with a message.
func (m *MPI) match(r *request, e *message) {
	var err error
	if len(e.data) > len(r.b) {
		err = boundary.ErrTruncated
	} else {
		r.done.From, r.done.Tag, r.done.Length = e.from.rank, e.tag, len(e.data)
	}
	copy(r.b, e.data)
	m.finish(r, err)
	if e.send != nil {
		m.finish(e.send, nil)
	}
}

// failRequests fails the requests of m that need the rank dead, which was killed.
func (m *MPI) failRequests(dead *MPI) {
	m.receives = slices.DeleteFunc(m.receives, func(r *request) bool {
		needed := r.peer != boundary.Any && r.comm.peers.ranks[r.peer] == dead
		if needed {
			m.finish(r, ErrKilled)
		}
		return needed
	})
	fail := func(e *message) bool {
		if e.from == m && e.send != nil {
			m.finish(e.send, ErrKilled)
		}
		return e.from == m
	}
	for _, box := range dead.inbox {
		box.list = slices.DeleteFunc(box.list, fail)
	}
	dead.unexpected = slices.DeleteFunc(dead.unexpected, fail)
}
