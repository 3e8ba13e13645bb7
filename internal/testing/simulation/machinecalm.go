package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// settleMachines ends all operations that wait for something, and waits until only receive buffers are in
// use.
func (w *world) settleMachines() {
	for _, m := range w.members {
		l := m.current()
		if l.station == nil {
			continue
		}
		s := l.station
		w.mu.Lock()
		var waiting []*loan
		for _, c := range s.crates {
			if x := c.loan; x != nil && (x.queue == transport.PassiveBulkRecv || x.queue == transport.PassiveBulkSend) {
				waiting = append(waiting, x)
			}
		}
		w.mu.Unlock()
		for _, x := range waiting {
			x.cancel()
		}
	}
	for _, m := range w.members {
		if l := m.current(); l.station != nil {
			l.station.await("what is under way to end", l.station.idle)
		}
	}
}

// idle reports whether nothing is in progress. w.mu is held.
func (s *station) idle() bool {
	for _, c := range s.crates {
		if c.loan != nil && c.loan.queue != transport.MsgRecv {
			return false
		}
	}
	return s.users == 0
}

// errandKind is a kind of exchange that must succeed after the faults have ended.
type errandKind uint8

const (
	errandAsk   errandKind = iota // a message and an answer
	errandFetch                   // a bulk transfer that the peer fetches
	errandFill                    // a bulk transfer that the peer fills
	errandKinds
)

// errand is one exchange that must succeed.
type errand struct {
	from, to *berth
	kind     errandKind
	letter   *letter
}

// calmMachines starts all stopped machines again after the faults have ended. It then checks that every
// machine can exchange messages and bulk data with another one, in both directions.
func (w *world) calmMachines() {
	w.addf("calm machines")
	var berths []*berth
	for _, m := range w.members {
		if l := m.current(); l.station != nil {
			for _, b := range l.station.berths {
				b.start()
				if b.running() != nil {
					berths = append(berths, b)
				} else if absent, _ := b.absent(); !absent {
					w.violate("all faults are over, and there is no machine %d of %v", b.index, l)
				}
			}
		}
	}
	var left []*errand
	for k, from := range berths {
		for j := range berths { // the next reachable one, which in the end is the machine itself
			if to := berths[(k+1+j)%len(berths)]; from.reaches(to) {
				for kind := range errandKinds {
					left = append(left, &errand{from: from, to: to, kind: kind})
				}
				break
			}
		}
	}
	r := rand.New(rand.NewPCG(w.seed, 0xca1))
	for round := 0; len(left) > 0; round++ {
		if round > calmRounds {
			for _, e := range left {
				w.violate("all faults are over, and kind %d from %v to %v still does not go through: %v",
					e.kind, e.from.running(), e.to.running(), e.letter)
			}
			break
		}
		if round > 0 {
			w.result.Retried += uint64(len(left))
			if w.faultless() {
				w.violate("nothing was broken, and yet %d errands have to be tried again", len(left))
			}
			w.fillPools()
			time.Sleep(time.Second)
		}
		left = w.tryErrands(r, left)
	}
	w.settleMachines()
}

// fillPools adds the buffers that receive queues lack to their pools. A machine whose queue was longer for a while
// (resize) keeps the buffers until messages arrive, and a pool has no more than all queues need.
func (w *world) fillPools() {
	for _, m := range w.members {
		s := m.current().station
		if s == nil || s.pool == nil {
			continue
		}
		lacking := 0
		for _, b := range s.berths {
			if machine := b.running(); machine != nil {
				lacking += machine.tm.Deficit()
			}
		}
		if lacking == 0 {
			continue
		}
		if got, err := s.pool.Provision(context.Background(), lacking); err != nil {
			w.violate("%v: provision: %d of %d buffers, %v", s.life, got, lacking, err)
		}
	}
}

// reaches reports whether the machines of two berths must be able to reach each other.
func (b *berth) reaches(to *berth) bool {
	w, from, other := b.world(), b.station.life.member, to.station.life.member
	if b.rail == loopback || to.rail == loopback {
		return from == other && b.rail == to.rail
	}
	if from.absent[b.rail] || other.absent[to.rail] {
		return false
	}
	return from == other && b.rail == to.rail || from != other && from.may(other) && other.may(from) &&
		(w.routers > 0 || b.nid().Net() == to.nid().Net())
}

// tryErrands tries each errand and returns those that failed, after the longest time that they may take.
// It tries one after the other, because most are done immediately.
func (w *world) tryErrands(r *rand.Rand, errands []*errand) (left []*errand) {
	for _, e := range errands {
		e.try(r)
		e.await(w.since() + promptly)
	}
	deadline := w.since() + w.operationWithin()
	for _, e := range errands {
		if !e.await(deadline) {
			left = append(left, e)
		}
	}
	if len(left) > 0 {
		w.settleMachines()
	}
	return left
}

// try sends the errand's letter.
func (e *errand) try(r *rand.Rand) {
	m, to := e.from.running(), e.to.running()
	if e.letter = nil; m == nil || to == nil {
		return
	}
	member := e.to.station.life.member
	if e.kind == errandAsk {
		e.letter = m.ask(r, member, to.address, true)
	} else {
		e.letter = m.announce(r, member, to.address, e.kind == errandFetch, true)
	}
}

// await waits until an errand is done or the deadline has passed, and reports whether it is done.
func (e *errand) await(deadline time.Duration) bool {
	w, x := e.from.world(), e.letter
	if x == nil {
		return false
	}
	for {
		w.mu.Lock()
		done := x.answered && (x.announced == nil || x.announced.ok)
		w.mu.Unlock()
		if done || w.since() >= deadline {
			return done
		}
		time.Sleep(5 * time.Millisecond)
	}
}
