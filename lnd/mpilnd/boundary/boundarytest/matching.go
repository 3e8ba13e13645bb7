package boundarytest

import (
	"math/rand/v2"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// message is a message with its request.
type message struct {
	peer, tag int
	id        uint64
	b, want   []byte
}

// all waits for sends and receives.
func (r *rank) all(sends, receives []message) {
	for _, e := range receives {
		r.received(e.id, e.peer, e.tag, e.b, e.want)
	}
	for _, e := range sends {
		r.sent(e.id)
	}
}

// stream exchanges messages of the given lengths with all other ranks, with one tag. They must match receives in order.
func (r *rank) stream(lengths []int) {
	const tag = 1
	var sends, receives []message
	for _, peer := range r.others() {
		for k, n := range lengths {
			b := make([]byte, 16<<10)
			receives = append(receives, message{peer, tag, r.receive(peer, tag, b), b, pattern(n, peer, r.me, k)})
		}
	}
	for _, peer := range r.others() {
		for k, n := range lengths {
			sends = append(sends, message{peer: peer, tag: tag, id: r.send(peer, tag, pattern(n, r.me, peer, k))})
		}
	}
	r.all(sends, receives)
}

func order(r *rank) {
	lengths := make([]int, 200)
	for k := range lengths {
		lengths[k] = 32
	}
	r.stream(lengths)
}

// orderOfLengths mixes messages that a library sends in different ways.
func orderOfLengths(r *rank) {
	var lengths []int
	for range 20 {
		lengths = append(lengths, 32, 16<<10, 0, 8<<10, 96, 4<<10+1)
	}
	r.stream(lengths)
}

// matchTag posts receives in an order other than that of the sends.
func matchTag(r *rank) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	tags := []int{7, 5, 32767, 2}
	var sends, receives []message
	for k := len(tags) - 1; k >= 0; k-- {
		b := make([]byte, 100)
		receives = append(receives, message{previous, tags[k], r.receive(previous, tags[k], b), b, pattern(100, previous, tags[k])})
	}
	for _, tag := range tags {
		sends = append(sends, message{id: r.send(next, tag, pattern(100, r.me, tag))})
	}
	r.all(sends, receives)
}

func matchSource(r *rank) {
	const tag = 3
	var sends, receives []message
	for _, peer := range r.others() {
		sends = append(sends, message{id: r.send(peer, tag, pattern(100, r.me, peer))})
	}
	for _, peer := range r.others() {
		b := make([]byte, 100)
		receives = append(receives, message{peer, tag, r.receive(peer, tag, b), b, pattern(100, peer, r.me)})
	}
	r.all(sends, receives)
}

// anySource receives from all ranks with the same receives. The messages of each rank must be in order, in the order of
// the receives.
func anySource(r *rank) {
	const tag, each, size = 1, 50, 64
	var sends, receives []message
	for range each * (Ranks - 1) {
		b := make([]byte, size)
		receives = append(receives, message{tag: tag, id: r.receive(boundary.Any, tag, b), b: b})
	}
	r.must(r.Barrier())
	for k := range each {
		for _, peer := range r.others() {
			sends = append(sends, message{id: r.send(peer, tag, pattern(size, r.me, peer, k))})
		}
	}
	var count [Ranks]int
	for _, e := range receives {
		d := r.complete(e.id)
		if d.From < 0 || d.From >= Ranks {
			r.fail("receive: %+v", d)
		}
		r.done[e.id] = d
		r.received(e.id, d.From, tag, e.b, pattern(size, d.From, r.me, count[d.From]))
		count[d.From]++
	}
	r.all(sends, nil)
}

// unexpected sends before the receives are posted. Sends may be incomplete until then.
func unexpected(r *rank) {
	const tag = 4
	sizes := []int{1, 1000, 100 << 10}
	var sends, receives []message
	for k, n := range sizes {
		for _, peer := range r.others() {
			sends = append(sends, message{id: r.send(peer, tag, pattern(n, r.me, peer, k))})
		}
	}
	r.must(r.Barrier())
	for k, n := range sizes {
		for _, peer := range r.others() {
			b := make([]byte, n)
			receives = append(receives, message{peer, tag, r.receive(peer, tag, b), b, pattern(n, peer, r.me, k)})
		}
	}
	r.all(sends, receives)
}

// self sends to the own rank, before and after the receive.
func self(r *rank) {
	for k, n := range []int{0, 10, 1 << 20} {
		b := make([]byte, n)
		first := r.receive(r.me, 1, b)
		r.sent(r.send(r.me, 1, pattern(n, k)))
		r.received(first, r.me, 1, b, pattern(n, k))

		sent := r.send(r.me, 2, pattern(n, k))
		r.poll(0)
		second := r.receive(boundary.Any, 2, b)
		r.received(second, r.me, 2, b, pattern(n, k))
		r.sent(sent)
	}
}

// random exchanges messages of random lengths and tags, a few of each pair of ranks at a time.
func random(r *rank) {
	const each, window = 150, 16
	lengths := []int{0, 1, 32, 96, 4096, 8192, 65 << 10, 300 << 10}
	// plan returns what one rank sends to another.
	plan := func(from, to int) []message {
		rng := rand.New(rand.NewPCG(uint64(from), uint64(to)))
		list := make([]message, each)
		for k := range list {
			list[k] = message{tag: 1 + rng.IntN(3), want: pattern(lengths[rng.IntN(len(lengths))], from, to, k)}
		}
		return list
	}
	var out, in [Ranks][]message
	for peer := range Ranks {
		out[peer], in[peer] = plan(r.me, peer), plan(peer, r.me)
	}
	for k := range each + window {
		for peer := range Ranks {
			if k < each {
				e := &in[peer][k]
				e.b = make([]byte, len(e.want)+k%3)
				e.id = r.receive(peer, e.tag, e.b)
				o := &out[peer][k]
				o.id = r.send(peer, o.tag, o.want)
			}
			if j := k - window; j >= 0 {
				e := &in[peer][j]
				r.received(e.id, peer, e.tag, e.b, e.want)
				r.sent(out[peer][j].id)
			}
		}
	}
}
