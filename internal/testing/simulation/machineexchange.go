package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// finishMachines cancels all passive buffers, and waits until only receive buffers are in use.
func (w *world) finishMachines() {
	for _, m := range w.members {
		l := m.current()
		if l.transport == nil {
			continue
		}
		s := l.transport
		w.mu.Lock()
		var waiting []*loan
		for _, c := range s.buffers {
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
		if l := m.current(); l.transport != nil {
			l.transport.await("what is under way to end", l.transport.idle)
		}
	}
}

// idle reports whether only receive buffers are in use and enter has no callers left. w.mu is held.
func (s *transportLayer) idle() bool {
	for _, c := range s.buffers {
		if c.loan != nil && c.loan.queue != transport.MsgRecv {
			return false
		}
	}
	return s.users == 0
}

// exchangeKind is a kind of machineExchange.
type exchangeKind uint8

const (
	exchangeMessage exchangeKind = iota // a message and an answer
	exchangeFetch                       // a passive buffer that the peer reads
	exchangeFill                        // a passive buffer that the peer writes
	exchangeKinds
)

// machineExchange is an exchange between the machines of two slots. It must succeed after the faults
// have ended.
type machineExchange struct {
	from, to *machineSlot
	kind     exchangeKind
	message  *message
}

// checkMachines starts all stopped machines after the faults have ended. It then checks that every
// machine can exchange messages and bulk data, in both directions, with another machine.
func (w *world) checkMachines() {
	w.addf("calm machines")
	var slots []*machineSlot
	for _, m := range w.members {
		if l := m.current(); l.transport != nil {
			for _, b := range l.transport.machineSlots {
				b.start()
				if b.running() != nil {
					slots = append(slots, b)
				} else if absent, _ := b.absent(); !absent {
					w.violate("all faults are over, and there is no machine %d of %v", b.index, l)
				}
			}
		}
	}
	var left []*machineExchange
	for k, from := range slots {
		for j := range slots { // the next reachable one, which in the end is the machine itself
			if to := slots[(k+1+j)%len(slots)]; from.reaches(to) {
				for kind := range exchangeKinds {
					left = append(left, &machineExchange{from: from, to: to, kind: kind})
				}
				break
			}
		}
	}
	r := rand.New(rand.NewPCG(w.seed, 0xca1))
	for round := 0; len(left) > 0; round++ {
		if round > finalAttempts {
			for _, e := range left {
				w.violate("all faults are over, and kind %d from %v to %v still does not go through: %v",
					e.kind, e.from.running(), e.to.running(), e.message)
			}
			break
		}
		if round > 0 {
			w.result.Retried += uint64(len(left))
			if w.faultless() {
				w.violate("the scenario has no faults, but %d exchanges must be repeated", len(left))
			}
			w.fillPools()
			time.Sleep(time.Second)
		}
		left = w.tryExchanges(r, left)
	}
	w.finishMachines()
}

// fillPools adds as many buffers to each pool as the receive queues lack. They lack buffers if resize
// made the queue of one machine longer for a while: that machine keeps the buffers until messages
// arrive.
func (w *world) fillPools() {
	for _, m := range w.members {
		s := m.current().transport
		if s == nil || s.pool == nil {
			continue
		}
		lacking := 0
		for _, b := range s.machineSlots {
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

// reaches reports whether the machines of two slots must be able to reach each other.
func (b *machineSlot) reaches(to *machineSlot) bool {
	w, from, other := b.world(), b.layer.life.member, to.layer.life.member
	if b.rail == loopback || to.rail == loopback {
		return from == other && b.rail == to.rail
	}
	if from.absent[b.rail] || other.absent[to.rail] {
		return false
	}
	return from == other && b.rail == to.rail || from != other && from.mustReach(other) && other.mustReach(from) &&
		(w.routers > 0 || b.nid().Net() == to.nid().Net())
}

// tryExchanges tries one exchange after the other and returns those that failed. If an exchange takes
// longer than immediateWithin, it starts the next one, and waits for the rest at the end.
func (w *world) tryExchanges(r *rand.Rand, exchanges []*machineExchange) (left []*machineExchange) {
	for _, e := range exchanges {
		e.try(r)
		e.await(w.since() + immediateWithin)
	}
	deadline := w.since() + w.operationWithin()
	for _, e := range exchanges {
		if !e.await(deadline) {
			left = append(left, e)
		}
	}
	if len(left) > 0 {
		w.finishMachines()
	}
	return left
}

// try sends the first message of the exchange. It sets e.message to nil if it could not.
func (e *machineExchange) try(r *rand.Rand) {
	m, to := e.from.running(), e.to.running()
	if e.message = nil; m == nil || to == nil {
		return
	}
	member := e.to.layer.life.member
	if e.kind == exchangeMessage {
		e.message = m.ask(r, member, to.address, true)
	} else {
		e.message = m.announce(r, member, to.address, e.kind == exchangeFetch, true)
	}
}

// await waits until the exchange is done or the deadline has passed, and reports whether it is done.
func (e *machineExchange) await(deadline time.Duration) bool {
	w, x := e.from.world(), e.message
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
