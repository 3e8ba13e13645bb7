package boundarytest

import (
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// forever is a time for which no test waits.
const forever = 24 * time.Hour

// noWait polls without a request, and with one for which there is no message.
func noWait(r *rank) {
	var done [1]boundary.Done
	none := func() {
		for _, wait := range []time.Duration{0, time.Nanosecond, time.Millisecond, 0} {
			if n, err := r.m.Poll(done[:], wait); n != 0 || err != nil {
				r.fail("Poll returned %d, %v", n, err)
			}
		}
	}
	none()
	id := r.receive(boundary.Any, 1, make([]byte, 1))
	none()
	r.cancel(id)
}

// wake ends waits from another goroutine, before and while the rank waits.
func wake(r *rank) {
	receive := r.receive(boundary.Any, 1, make([]byte, 1))
	for range 20 {
		r.m.Wake()
		r.woken()
		timer := time.AfterFunc(5*time.Millisecond, r.m.Wake)
		r.woken()
		timer.Stop()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.m.Wake()
		r.m.Wake()
	}()
	r.woken()
	<-ended
	r.poll(0) // the second Wake may be left
	r.cancel(receive)
}

// woken waits without limit. Another goroutine must wake the rank.
func (r *rank) woken() {
	if n := r.poll(forever); n != 0 {
		r.fail("%d completions", n)
	}
}

// wakeBusy wakes ranks that exchange messages at the same time.
func wakeBusy(r *rank) {
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				ended <- n
				return
			case <-time.After(50 * time.Microsecond):
				r.m.Wake()
				n++
			}
		}
	}()
	r.exchange(200, 100)
	close(stop)
	<-ended
	r.poll(0) // the last Wake may be left
}

// waitForMessage waits for a message that is sent when the receiver waits already.
func waitForMessage(r *rank) {
	for root := range Ranks {
		if r.me == root {
			later := time.NewTimer(20 * time.Millisecond)
			<-later.C
			for _, peer := range r.others() {
				r.sent(r.send(peer, 1, pattern(10, root)))
			}
			continue
		}
		b := make([]byte, 10)
		id := r.receive(root, 1, b)
		for r.started[id] {
			r.poll(forever)
		}
		r.received(id, root, 1, b, pattern(10, root))
	}
}

// exchange sends and receives messages of n bytes with the neighbours, one at a time.
func (r *rank) exchange(rounds, n int) {
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	b := make([]byte, n)
	for k := range rounds {
		received := r.receive(previous, 1, b)
		sent := r.send(next, 1, pattern(n, r.me, k))
		r.received(received, previous, 1, b, pattern(n, previous, k))
		r.sent(sent)
	}
}

func pingPong(r *rank) {
	peer := r.me ^ 1
	b := make([]byte, 32)
	for k := range 1000 {
		if r.me < peer {
			r.sent(r.send(peer, 1, pattern(32, k)))
		}
		r.received(r.receive(peer, 1, b), peer, 1, b, pattern(32, k))
		if r.me > peer {
			r.sent(r.send(peer, 1, pattern(32, k)))
		}
	}
}

func megabyte(r *rank) { r.exchange(5, 1<<20) }

// outstanding has 64 requests of each kind with each peer.
func outstanding(r *rank) {
	const size = 64 << 10
	var sends, receives []message
	for _, peer := range r.others() {
		for k := range 64 {
			b := make([]byte, size)
			receives = append(receives, message{peer, 1 + k, r.receive(peer, 1+k, b), b, pattern(size, peer, r.me, k)})
		}
	}
	for k := range 64 {
		for _, peer := range r.others() {
			sends = append(sends, message{id: r.send(peer, 1+k, pattern(size, r.me, peer, k))})
		}
	}
	r.all(sends, receives)
}

// tenThousand has 10,000 requests of each kind.
func tenThousand(r *rank) {
	const count = 10000
	next, previous := (r.me+1)%Ranks, (r.me+Ranks-1)%Ranks
	sends, receives := make([]message, count), make([]message, count)
	for k := range receives {
		b := make([]byte, 16)
		receives[k] = message{previous, 1 + k, r.receive(previous, 1+k, b), b, pattern(16, previous, k)}
	}
	for k := range sends {
		sends[k] = message{id: r.send(next, 1+k, pattern(16, r.me, k))}
	}
	r.all(sends, receives)
}
