package boundarytest

import (
	"bytes"
	"errors"
	"math"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

func empty(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	for _, b := range [][]byte{nil, {}, make([]byte, 10)} {
		received := r.receive(previous, 1, b)
		sent := r.send(next, 1, b[:0])
		r.received(received, previous, 1, b, nil)
		r.sent(sent)
	}
}

// shorter receives into a buffer that is longer than the message. The rest of the buffer must not change.
func shorter(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	for _, n := range []int{1, 100, 100 << 10} {
		b := bytes.Repeat([]byte{0xa5}, 2*n)
		received := r.receive(previous, 1, b)
		sent := r.send(next, 1, pattern(n, r.me))
		r.received(received, previous, 1, b, pattern(n, previous))
		r.unchanged(b[n:])
		r.sent(sent)
	}
}

// unchanged checks bytes that were 0xa5.
func (r *rank) unchanged(b []byte) {
	if !bytes.Equal(b, bytes.Repeat([]byte{0xa5}, len(b))) {
		r.fail("bytes beside the message have changed")
	}
}

// truncated receives messages that are too long. Later messages must not be affected. Libraries may overwrite what is
// behind the buffer.
func truncated(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	for _, n := range []int{100, 8 << 10, 1 << 20} {
		b, c := make([]byte, n), make([]byte, n)
		short, later := r.receive(previous, 1, b[:n/2]), r.receive(previous, 1, c)
		sends := []uint64{r.send(next, 1, pattern(n, r.me)), r.send(next, 1, pattern(n, r.me, 1))}
		if d := r.complete(short); !errors.Is(d.Err, boundary.ErrTruncated) || d.Cancelled {
			r.fail("%d bytes into %d: %+v", n, n/2, d)
		}
		r.received(later, previous, 1, c, pattern(n, previous, 1))
		r.sent(sends...)
	}
}

// limits uses the smallest and the largest tag, and ranks and tags that are not allowed.
func limits(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	for _, tag := range []int{1, r.m.MaxTag() - 1, r.m.MaxTag()} {
		b := make([]byte, 8)
		received := r.receive(previous, tag, b)
		sent := r.send(next, tag, pattern(8, r.me, tag))
		r.received(received, previous, tag, b, pattern(8, previous, tag))
		r.sent(sent)
	}
	b := make([]byte, 8)
	id := r.last + 1
	for _, tag := range []int{0, -1, math.MinInt32, r.m.MaxTag() + 1, 1 << 40} {
		if r.Send(next, tag, b, id) == nil || r.Receive(previous, tag, b, id) == nil {
			r.fail("the tag %d is accepted", tag)
		}
	}
	for _, peer := range []int{-2, -3, Ranks, math.MinInt32, 1 << 40} {
		if r.Send(peer, 1, b, id) == nil || r.Receive(peer, 1, b, id) == nil {
			r.fail("the rank %d is accepted", peer)
		}
	}
	if r.Send(boundary.Any, 1, b, id) == nil {
		r.fail("a send to any rank is accepted")
	}
}

// cancel cancels a receive for which no message was sent.
func (r *rank) cancel(id uint64) {
	r.must(r.Cancel(id))
	if d := r.complete(id); !d.Cancelled || d.Err != nil {
		r.fail("a receive without a message was cancelled: %+v", d)
	}
}

// cancelBefore cancels a receive before the message is sent, which the next receive must get.
func cancelBefore(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	for k, from := range []int{previous, boundary.Any} {
		first := bytes.Repeat([]byte{0xa5}, 100)
		id := r.receive(from, 1, first)
		r.poll(0)
		r.cancel(id)
		r.must(r.Barrier())
		b := make([]byte, 100)
		received := r.receive(from, 1, b)
		sent := r.send(next, 1, pattern(100, r.me, k))
		r.received(received, previous, 1, b, pattern(100, previous, k))
		r.sent(sent)
		r.unchanged(first)
	}
}

// cancelAfter cancels a receive whose message has arrived: another message, which was sent later, was received.
func cancelAfter(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	b, c := make([]byte, 100), make([]byte, 100)
	first, second := r.receive(previous, 1, b), r.receive(previous, 2, c)
	sends := []uint64{r.send(next, 1, pattern(100, r.me, 1)), r.send(next, 2, pattern(100, r.me, 2))}
	r.sent(sends...)
	r.received(second, previous, 2, c, pattern(100, previous, 2))
	if _, complete := r.done[first]; !complete {
		r.must(r.Cancel(first))
	}
	r.received(first, previous, 1, b, pattern(100, previous, 1))
}

func cancelUnknown(r *rank) {
	if r.Cancel(1<<60) == nil {
		r.fail("a receive that does not exist was cancelled")
	}
	b := make([]byte, 10)
	received := r.receive(r.me, 1, b)
	sent := r.send(r.me, 1, b)
	r.sent(sent)
	r.received(received, r.me, 1, b, b)
	for _, id := range []uint64{sent, received} {
		if r.Cancel(id) == nil {
			r.fail("a complete request was cancelled")
		}
	}
}

// cancelMany cancels a pool of receives, as a driver does before it closes the library.
func cancelMany(r *rank) {
	var ids []uint64
	for k := range 500 {
		ids = append(ids, r.receive(boundary.Any, 1+k%3, make([]byte, 100)))
	}
	for _, id := range ids {
		r.must(r.Cancel(id))
	}
	for _, id := range ids {
		if d := r.complete(id); !d.Cancelled || d.Err != nil {
			r.fail("%+v", d)
		}
	}
}

// cancelRace cancels a receive while its message arrives. The message must be received once, by this or the next
// receive.
func cancelRace(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	for k := range 200 {
		n := []int{50, 20 << 10}[k%2]
		b, c := make([]byte, n), make([]byte, n)
		first := r.receive(previous, 1, b)
		sent := r.send(next, 1, pattern(n, r.me, k))
		for range k % 5 {
			r.poll(0)
		}
		if _, complete := r.done[first]; !complete {
			r.must(r.Cancel(first))
		}
		d := r.complete(first)
		if d.Cancelled {
			r.received(r.receive(previous, 1, c), previous, 1, c, pattern(n, previous, k))
		} else {
			r.done[first] = d
			r.received(first, previous, 1, b, pattern(n, previous, k))
		}
		r.sent(sent)
	}
}
