package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// timeGrid is the unit to which pauses of agents are rounded, so that several agents often wake at the
// same time.
const timeGrid = 5 * time.Millisecond

// pause waits for about d.
func pause(d time.Duration) { time.Sleep(d.Round(timeGrid)) }

// traffic generates an agent's share of the scenario's operations.
func (w *world) traffic(r *rand.Rand) {
	share := w.scenario.operations / w.agents
	pace := pace{gap: float64(w.duration) / float64(share), bursts: 20, longest: 25}
	for range share {
		pace.wait(r)
		from, to := w.pair(r)
		switch {
		case r.IntN(12) == 0:
			to = from
		case pace.burst == 0 && r.IntN(20) == 0:
			w.storm(r)
		}
		l := from.current()
		if l == nil {
			continue
		}
		switch r.IntN(40) {
		case 0:
			w.ping(r, l, to)
		case 1:
			w.discover(r, l, to)
		default:
			l.launch(w.drawOperation(r, l, to, w.length(r)))
		}
	}
}

// storm waits until the next full second, and then sends messages to the mailbox of one member. Agents
// that call it within the same second send to the same member at the same time, which causes many
// handler calls and exhausts credits.
func (w *world) storm(r *rand.Rand) {
	second := w.since().Truncate(time.Second) + time.Second
	time.Sleep(second - w.since())
	to := w.members[int(second/time.Second)%len(w.members)]
	for range 8 {
		from := w.members[r.IntN(len(w.members))].current()
		if from == nil {
			continue
		}
		o := w.newOperation(opKind(r.IntN(2)), to, w.target(r, from.member, to))
		o.portal, o.length = portalMailbox, r.IntN(100)
		if from.member == to {
			o.target = lnet.LoopbackNID
		}
		from.launch(o)
	}
}

// ping sends a ping from l to a member, and checks that the answer has only NIDs of that member. It does
// not wait for the answer.
func (w *world) ping(r *rand.Rand, l *life, to *member) {
	target := lnet.ProcessID{NID: w.target(r, l.member, to)}
	within := time.Duration(1+r.IntN(5)) * time.Second
	w.later.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		began := w.since()
		info, err := l.node.Ping(ctx, target, node.PingOptions{})
		if took := w.since() - began; took > within {
			w.violate("%v: ping of %v took %v", l, target, took)
		}
		w.addf("%v: ping of %v: %d NIs, %v", l, target, len(info.NIs), err)
		w.mu.Lock()
		w.result.Pings++
		if err != nil {
			w.result.PingsFailed++
		}
		w.mu.Unlock()
		for _, i := range info.NIs {
			if !to.has(i.NID) && !i.NID.IsLoopback() {
				w.violate("%v: ping of %v tells of %v", l, target, i.NID)
			}
		}
		if err != nil && w.faultless() {
			w.violate("%v: the scenario has no faults, but the ping of %v failed: %v", l, target, err)
		}
	})
}

// pair draws two different members.
func (w *world) pair(r *rand.Rand) (from, to *member) {
	a := r.IntN(len(w.members))
	b := r.IntN(len(w.members) - 1)
	if b >= a {
		b++
	}
	return w.members[a], w.members[b]
}

// length draws the length of a message. Most are small.
func (w *world) length(r *rand.Rand) int {
	switch k := r.IntN(100); {
	case k < 8:
		return 0
	case k < 50:
		return 1 + r.IntN(95)
	case k < 75:
		return 96 + r.IntN(904)
	case k < 92:
		return 1 + r.IntN(8<<10)
	case k < 99:
		return 1 + r.IntN(64<<10)
	}
	return w.largest - r.IntN(2)*r.IntN(w.largest)
}

// drawOperation draws an operation from a node to a member, and posts the MDs that it needs at its
// target.
func (w *world) drawOperation(r *rand.Rand, from *life, to *member, length int) *operation {
	kind := opKind(r.IntN(3))
	target := w.target(r, from.member, to)
	var source lnet.NID
	switch {
	case to == from.member && r.IntN(3) > 0:
		target = lnet.LoopbackNID
	case r.IntN(3) == 0:
		source = from.member.nidTowards(target)
	}
	o := w.newOperation(kind, to, target)
	o.source = source
	o.length = length
	if r.IntN(4) == 0 {
		o.pieces = 2 + r.IntN(5)
	}
	switch r.IntN(8) {
	case 0:
		o.threshold = portals.Unlimited
	case 1:
		o.threshold = 3 + r.IntN(3)
	}
	o.linger = o.threshold != 0 && r.IntN(2) == 0
	o.untracked = r.IntN(10) == 0
	if o.threshold != 0 || o.untracked {
		o.giveUp = 2 * w.transaction
	}
	if r.IntN(15) == 0 {
		o.giveUp = time.Duration(r.Int64N(int64(time.Second)))
	}
	l := to.current()
	if l == nil {
		o.portal, o.never = portalEmpty, true
		return o
	}
	if kind == opFetch {
		l.drawGet(r, o)
	} else {
		l.drawPut(r, o, from)
	}
	return o
}

var (
	anyone = lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}
	fits   = [...]fit{fitExact, fitExact, fitLoose, fitTruncates, fitRefuses}
)

// drawPut draws the destination of a PUT at l.
func (l *life) drawPut(r *rand.Rand, o *operation, from *life) {
	w := l.member.w
	switch k := r.IntN(20); {
	case k < 6:
		o.portal = portalMailbox
		if o.length > 2*mailboxMax {
			o.length = r.IntN(2 * mailboxMax)
		}
		if r.IntN(2) == 0 {
			o.response = w.respond(r, o, from)
		}
	case k < 10:
		o.portal = portalSlots
		l.slot(o, r)
	case k < 14:
		l.oneShot(o, portalOneShot, fits[r.IntN(len(fits))], anyone, 1+r.IntN(3))()
	case k < 17 && !w.faultless(): // while the PUT waits on the lazy portal, its whole connection waits
		o.late = 1 + time.Duration(r.Int64N(int64(1500*time.Millisecond)))
		post := l.oneShot(o, portalLazy, fits[r.IntN(len(fits))], anyone, 1)
		w.after(o.late, func() {
			if l.running() {
				post()
			}
		})
	case k < 19:
		l.drawUnique(r, o, from)
	default:
		o.portal, o.never = portalEmpty, true
	}
}

// drawUnique posts an MD whose entry accepts one initiator. In a quarter of the cases that is not the
// sender, and the PUT must not match.
func (l *life) drawUnique(r *rand.Rand, o *operation, from *life) {
	who := o.target // a message to 0@lo has this NID as its source
	if !who.IsLoopback() {
		if o.source.IsZero() {
			o.source = from.member.nidTowards(o.target)
		}
		who = o.source
		if l.member.configured && l.member != from.member {
			who = from.member.nids[0]
		}
	}
	if r.IntN(4) == 0 {
		who = from.member.other().drawNID(r)
		o.never = true
	}
	l.oneShot(o, portalUnique, fitExact, lnet.ProcessID{NID: who, PID: lnet.PIDLustre}, 1)()
}

// other returns the next member.
func (m *member) other() *member { return m.w.members[(m.index+1)%len(m.w.members)] }

// respond creates the PUT that the target's handler sends back to member to's node when o has arrived.
func (w *world) respond(r *rand.Rand, o *operation, to *life) *operation {
	target := o.target
	if !target.IsLoopback() {
		target = to.member.nidTowards(target)
	}
	a := w.newOperation(opKind(r.IntN(2)), to.member, target)
	a.length = r.IntN(2048)
	to.oneShot(a, portalOneShot, fitExact, anyone, 1)()
	return a
}

// drawGet draws the portal and the data that a GET fetches at l.
func (l *life) drawGet(r *rand.Rand, o *operation) {
	switch k := r.IntN(20); {
	case k < 12:
		o.portal = portalStore
		o.tag = storeTruncates + uint32(r.IntN(2))
		o.offset = r.IntN(storeSize + 64)
		o.content, o.contentFrom = l.member.store(), o.offset
		o.contentLen = min(o.length, max(0, storeSize-o.offset))
		o.never = o.tag == storeRefuses && o.contentLen < o.length
	case k < 18:
		l.oneShot(o, portalOneShot, fits[r.IntN(len(fits))], anyone, 1+r.IntN(3))()
	default:
		o.portal, o.never = portalEmpty, true
	}
}
