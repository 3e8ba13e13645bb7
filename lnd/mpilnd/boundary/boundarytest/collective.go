package boundarytest

import (
	"bytes"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// barrier checks that no rank passes the barrier before all have reached it: no message that is sent behind it can be
// received before it.
func barrier(r *rank) {
	for k := range 20 {
		early := r.receive(boundary.Any, 1, make([]byte, 10))
		r.poll(0)
		r.cancel(early)
		r.must(r.Barrier())
		var sends, receives []message
		for _, peer := range r.others() {
			b := make([]byte, 10)
			receives = append(receives, message{peer, 1, r.receive(peer, 1, b), b, pattern(10, peer, k)})
			sends = append(sends, message{id: r.send(peer, 1, pattern(10, r.me, k))})
		}
		r.all(sends, receives)
		r.must(r.Barrier())
	}
}

func broadcast(r *rank) {
	for root := range Ranks {
		for _, n := range []int{0, 1, 8 << 10, 1 << 20} {
			want := pattern(n, root)
			b := make([]byte, n)
			if r.me == root {
				copy(b, want)
			}
			r.must(r.Broadcast(b, root))
			if !bytes.Equal(b, want) {
				r.fail("%d bytes from rank %d: wrong bytes", n, root)
			}
		}
	}
}

func gather(r *rank) {
	for root := range Ranks {
		for _, n := range []int{0, 24, 64 << 10} {
			var all, want []byte
			if r.me == root {
				all = make([]byte, n*Ranks)
				for peer := range Ranks {
					want = append(want, pattern(n, peer, root)...)
				}
			}
			r.must(r.Gather(pattern(n, r.me, root), all, root))
			if !bytes.Equal(all, want) {
				r.fail("%d bytes of each rank to rank %d: wrong bytes", n, root)
			}
		}
	}
}

// collectiveBesideMessages makes collective calls while requests are incomplete. They must not affect each other.
func collectiveBesideMessages(r *rank) {
	b := make([]byte, 100)
	waiting := r.receive(boundary.Any, 1, b)
	word := []byte{byte(r.me)}
	for root := range Ranks {
		r.must(r.Broadcast(word, root))
	}
	all := make([]byte, Ranks)
	if r.me != 0 {
		all = nil
	}
	r.must(r.Gather(word, all, 0))
	r.must(r.Barrier())
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	sent := r.send(next, 1, pattern(100, r.me))
	r.must(r.Barrier())
	r.received(waiting, previous, 1, b, pattern(100, previous))
	r.sent(sent)
}
