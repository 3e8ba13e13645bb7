package discovery

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// encoder encodes exactly the state that the future of a world depends on: two worlds with
// the same encoding have the same future. Times and incarnations are relative to now.
// Request numbers and times in the machine's order are replaced by their rank.
type encoder struct {
	b      []byte
	w      *network
	orders []uint64
	ids    map[*simNode][]RequestID // under way
}

var hashSeed = maphash.MakeSeed()

// hash returns the hash of the encoding of a network, and of the faults that may still happen
// to it.
func (e *encoder) hash(w *network, b budget) uint64 {
	e.w, e.b = w, e.b[:0]
	e.ids = make(map[*simNode][]RequestID, len(w.nodes))
	e.ints(b.faults, b.losses, b.restarts, b.changes, b.sends)
	for _, n := range w.nodes {
		e.node(n)
	}
	messages := make([]string, len(w.messages))
	for k := range w.messages {
		at := len(e.b)
		e.message(&w.messages[k])
		messages[k] = string(e.b[at:])
		e.b = e.b[:at]
	}
	slices.Sort(messages) // messages can be reordered
	for _, l := range messages {
		e.b = append(e.b, l...)
	}
	return maphash.Bytes(hashSeed, e.b)
}

func (e *encoder) int(v int) { e.b = binary.AppendVarint(e.b, int64(v)) }

func (e *encoder) ints(vs ...int) {
	for _, v := range vs {
		e.int(v)
	}
}

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) nid(n lnet.NID) { e.b = n.AppendLarge(e.b) }

func (e *encoder) nids(nids []lnet.NID) {
	e.int(len(nids))
	for _, n := range nids {
		e.nid(n)
	}
}

// ago encodes a time relative to now.
func (e *encoder) ago(t time.Duration) { e.int(int((t - e.w.now) / time.Second)) }

func (e *encoder) node(n *simNode) {
	e.nids(n.nids)
	e.ints(int(n.seq), e.w.incarnations-n.restarts)
	for _, of := range e.w.nodes {
		if seen, ok := n.incarnations[of]; ok {
			e.int(of.incarnation - seen)
		} else {
			e.int(-1)
		}
	}
	m := n.m
	e.orders = e.orders[:0]
	for p := m.first; p != nil; p = p.next {
		e.orders = append(e.orders, p.learnedAt, p.doubtAt, p.restartedAt, p.ackedPushAt)
		if w := p.work; w != nil {
			e.orders = append(e.orders, w.pingedAt, w.pushedAt)
			if w.data != nil {
				e.orders = append(e.orders, w.data.pingTime)
			}
		}
	}
	slices.Sort(e.orders)
	e.orders = slices.Compact(e.orders)
	e.ints(int(m.local.Seq), m.pushRoom, m.count)
	for p := m.first; p != nil; p = p.next {
		e.peer(n, p)
	}
	for _, p := range m.timers { // determines the order of timers that are due at the same time
		e.nid(p.nis[0].nid)
	}
}

func (e *encoder) order(o uint64) {
	if o == 0 {
		e.int(0)
		return
	}
	rank, _ := slices.BinarySearch(e.orders, o)
	e.int(rank + 1)
}

func (e *encoder) peer(n *simNode, p *peer) {
	e.nid(p.primary)
	e.int(len(p.nis))
	for _, i := range p.nis {
		e.nid(i.nid)
	}
	e.ints(int(p.state), int(p.seq), int(p.ackedSeq), int(p.newestSeq), int(p.newestDigest), int(p.failures%2), int(p.tries), int(p.dataSize))
	e.bool(p.hasNewest)
	e.bool(p.pushUnacked)
	e.bool(p.retriesEnded)
	e.order(p.learnedAt)
	e.order(p.doubtAt)
	e.order(p.restartedAt)
	e.order(p.ackedPushAt)
	if p.timerIndex != 0 {
		e.ago(p.due)
	} else {
		e.int(-1 << 30)
	}
	e.ago(max(p.pauseEnd, e.w.now))
	w := p.work
	e.bool(w != nil)
	if w == nil {
		return
	}
	e.id(n, w.ping)
	e.id(n, w.push)
	e.order(w.pingedAt)
	e.order(w.pushedAt)
	e.ints(int(w.pushed), w.repingCount, len(w.parked))
	e.bool(w.pushVoid)
	e.nid(w.source)
	e.nid(w.destination)
	e.nid(w.alsoPing)
	e.bool(w.data != nil)
	if w.data != nil {
		e.content(w.data)
		e.order(w.data.pingTime)
	}
}

// id encodes a request by its place among those under way.
func (e *encoder) id(n *simNode, id RequestID) {
	e.bool(id != 0)
	if id != 0 {
		e.ids[n] = append(e.ids[n], id)
	}
}

// rank returns the place of a request, or -1 if its end has no effect any more.
func (e *encoder) rank(of *simNode, life int, id RequestID) int {
	if of == nil || of.incarnation != life {
		return -1
	}
	return slices.Index(e.ids[of], id)
}

func (e *encoder) content(c *Content) {
	e.int(int(c.Info.Seq))
	e.int(len(c.Info.NIs))
	for k := range c.Info.NIs {
		e.nid(c.Info.NIs[k].NID)
	}
	e.bool(c.Short)
	e.bool(c.Cut)
}

func (e *encoder) message(l *message) {
	e.ints(int(l.kind), l.sender.name, l.sender.incarnation-l.incarnation, e.w.incarnations-l.written, l.bufferSize)
	e.nid(l.from)
	e.nid(l.to)
	e.int(len(l.paths))
	for _, way := range l.paths {
		e.nid(way.from)
		e.nid(way.to)
	}
	asker, life := l.sender, l.incarnation
	if l.asker != nil {
		asker, life = l.asker, l.asked
	}
	e.ints(asker.name, asker.incarnation-life, e.rank(asker, life, l.id))
	if l.kind == kindPush || l.kind == kindReply {
		e.content(&l.content)
	}
}
