package simulation

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// cargo is bulk that is sent, or lies there to be fetched: so many bytes of a stream.
type cargo struct {
	stream  stream
	n       int
	passive bool

	// Guarded by world.mu.
	key       cargoKey // of the passive buffer, as soon as it is known
	delivered int      // of active ones
}

// cargoKey is what LNet finds a passive buffer by. That is not one buffer for ever: the
// next machine with the number begins to count anew (transport 6.4).
type cargoKey struct {
	member *member
	portal uint32
	bits   transport.MatchBits
}

const (
	cargoTag   = 0xca << 56 // of streams: no other has it
	cargoIndex = 1<<32 - 1
)

// newCargo numbers a cargo. w.mu is not held.
func (w *world) newCargo(n int, passive bool, key cargoKey) *cargo {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &cargo{n: n, passive: passive, key: key}
	c.stream = stream(cargoTag | (w.seed&0xffffff)<<32 | uint64(len(w.cargoes)))
	w.cargoes = append(w.cargoes, c)
	return c
}

// cargoOf finds the cargo whose stream begins so, nil if there is none. w.mu is held.
func (w *world) cargoOf(word uint64) *cargo {
	k := word & cargoIndex
	if k >= uint64(len(w.cargoes)) || uint64(w.cargoes[k].stream) != word {
		return nil
	}
	return w.cargoes[k]
}

// keyOf is the key of a descriptor, as a member sees it.
func (w *world) keyOf(p *transport.Passive, self *member) cargoKey {
	return cargoKey{w.nidOwner(p.Address.NID, self), p.Address.Portal, p.MatchBits}
}

// announce lends a passive buffer, for the peer to fetch or to fill, and tells another
// machine of it. Calm is for when all has to go well.
func (m *machine) announce(r *rand.Rand, to *member, a transport.Address, fetch, calm bool) *letter {
	w, s := m.world(), m.station
	e, release := m.to(a)
	if e == nil {
		return nil
	}
	defer release()
	c := s.take(&s.large, 3)
	if c == nil {
		return nil
	}
	l := &loan{crate: c, queue: transport.PassiveBulkRecv, reading: true}
	c.buffer.Length = c.region.n
	if fetch {
		l.queue = transport.PassiveBulkSend
		c.buffer.Length = w.cargoLength(r)
		l.cargo = w.newCargo(c.buffer.Length, true, cargoKey{})
		c.fill(l.cargo.stream)
	} else {
		c.wipe()
	}
	if !calm && r.IntN(2) == 0 {
		l.deadline = time.Now().Add(time.Duration(1 + r.Int64N(int64(w.machines.alert))))
	}
	d := m.expose(l)
	if d == nil {
		return nil
	}
	if !calm && l.deadline.IsZero() && s.enter() {
		time.AfterFunc(time.Duration(1+r.Int64N(int64(w.machines.alert))), func() {
			l.cancel()
			s.leave()
		})
	}
	small := s.take(&s.small, 2)
	if small == nil {
		l.cancel()
		return nil
	}
	x := w.newLetter(letter{
		kind: letterAnnounce, from: m.address, to: a, sender: s.life.member, receiver: to, announced: l,
		misuse: !calm && r.IntN(8) == 0, short: !calm && r.IntN(2) == 0,
	}, letterMin, d)
	if _, err := m.post(x, small, e, 0, m.tm.Add); err != nil {
		l.cancel()
	}
	return x
}

// expose lends a passive buffer, and returns its descriptor, nil if the machine is stopping.
func (m *machine) expose(l *loan) transport.Descriptor {
	w, s, b := m.world(), m.station, l.crate.buffer
	if m.lend(l, m.tm.Add) != nil {
		s.giveBack(l.crate)
		return nil
	}
	d := bytes.Clone(b.Descriptor)
	p, err := transport.Descriptor(d).Decode()
	if err != nil || p.Address != m.address || p.Queue != l.queue || p.Size != b.Length {
		w.violate("%v: its descriptor says %+v, %v", l, p, err)
	}
	w.mu.Lock()
	if m.exposed[p.MatchBits] {
		w.violate("%v: its descriptor is that of another buffer: %+v", l, p)
	}
	m.exposed[p.MatchBits] = true
	if l.cargo != nil {
		l.cargo.key = w.keyOf(&p, s.life.member)
	}
	l.reading = false
	over := l.over
	w.mu.Unlock()
	if over {
		s.giveBack(l.crate)
	}
	return d
}

// cargoLength draws a length of bulk.
func (w *world) cargoLength(r *rand.Rand) int {
	limit := w.machines.cargoMax
	if r.IntN(4) > 0 {
		limit = min(limit, 8<<10)
	}
	return cargoMin + r.IntN(limit-cargoMin+1)
}

// use does what a letter asks for with the buffer that it announces, and then answers.
func (m *machine) use(x *letter, e *transport.BufferEvent) {
	w, s := m.world(), m.station
	d := bytes.Clone(x.descriptor())
	p, err := transport.Descriptor(d).Decode()
	if err != nil {
		w.violate("%v: %v", x, err)
		return
	}
	c := s.take(&s.large, 0)
	if c == nil {
		return
	}
	c.buffer.Descriptor = d
	l := &loan{crate: c, queue: transport.ActiveBulkRecv, to: p.Address.NID, key: w.keyOf(&p, s.life.member)}
	if p.Queue == transport.PassiveBulkSend {
		l.wanted = p.Size
		c.wipe()
		w.mu.Lock()
		w.fetches[l.key]++
		w.mu.Unlock()
	} else {
		l.queue = transport.ActiveBulkSend
		n := min(p.Size, c.region.n)
		if x.short {
			n = cargoMin + int(x.number)%(n-cargoMin+1)
		}
		l.cargo = w.newCargo(n, false, l.key)
		c.buffer.Length = n
		c.fill(l.cargo.stream)
	}
	if x.misuse {
		m.misuse(l)
	}
	l.done = func(ok bool) {
		if !ok {
			return
		}
		if to, release := m.to(x.from); to != nil {
			m.reply(x, to, m.tm.Add)
			release()
		}
	}
	if m.lend(l, e.Add) != nil {
		s.giveBack(c)
	}
}

// misuse uses a descriptor the wrong way round, which is refused.
func (m *machine) misuse(l *loan) {
	w, b := m.world(), l.crate.buffer
	b.Queue, b.Callbacks = transport.ActiveBulkRecv+transport.ActiveBulkSend-l.queue, &m.callbacks
	length := b.Length
	b.Length = 1
	err := m.tm.Add(b)
	b.Length = length
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, syscall.EPERM) {
		w.result.Deeds[DeedMisused]++
	} else if !m.mayRefuse(err) {
		w.violate("%v: its descriptor is for the other direction, and yet: %v", l, err)
	}
}

// past adds a buffer whose deadline has passed, which is refused.
func (m *machine) past(e *transport.EndPoint) {
	w, s := m.world(), m.station
	c := s.take(&s.small, 2)
	if c == nil {
		return
	}
	defer s.giveBack(c)
	b := c.buffer
	b.Queue, b.Callbacks, b.EndPoint, b.Length = transport.MsgSend, &m.callbacks, e, letterMin
	b.Deadline = time.Now()
	err := m.tm.Add(b)
	b.Deadline = time.Time{}
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, syscall.ETIME) {
		w.result.Deeds[DeedPast]++
	} else if !m.mayRefuse(err) {
		w.violate("%v: the deadline has passed, and yet: %v", m, err)
	}
}

// succeeded takes an event without an error, and returns what is to be done about it. w.mu
// is held.
func (l *loan) succeeded(e *transport.BufferEvent) []func() {
	w := l.machine.world()
	switch l.queue {
	case transport.MsgRecv:
		return l.arrived(e)
	case transport.PassiveBulkRecv:
		w.result.Deeds[DeedPassiveRecv]++
		l.filled(e)
	case transport.PassiveBulkSend:
		w.result.Deeds[DeedPassiveSend]++
		k := l.passiveKey(e)
		if w.served[k]++; w.served[k] > w.fetches[k] {
			w.violate("%v: was fetched %d times, nobody asked but %d times", l, w.served[k], w.fetches[k])
		}
	case transport.ActiveBulkRecv:
		w.result.Deeds[DeedActiveRecv]++
		l.fetched(e)
	case transport.ActiveBulkSend:
		w.result.Deeds[DeedActiveSend]++
	}
	return nil
}

// passiveKey is the key of a passive buffer that has come back.
func (l *loan) passiveKey(e *transport.BufferEvent) cargoKey {
	w := l.machine.world()
	p, err := e.Buffer.Descriptor.Decode()
	if err != nil {
		w.violate("%v: %v", l, err)
	}
	return w.keyOf(&p, l.machine.station.life.member)
}

// filled looks at what a passive buffer was filled with. w.mu is held.
func (l *loan) filled(e *transport.BufferEvent) {
	w, r := l.machine.world(), l.crate.region
	c := w.cargoOf(r.word())
	switch {
	case c == nil || c.passive || c.key != l.passiveKey(e):
		w.violate("%v: was filled with what is not for it", l)
		return
	case e.Length != c.n || e.Offset != 0:
		w.violate("%v: was filled with %d bytes at %d, not %d", l, e.Length, e.Offset, c.n)
		return
	}
	if c.delivered++; c.delivered > 1 {
		w.violate("%v: was filled with what was delivered before", l)
	}
	l.contents(c, e.Length)
}

// fetched looks at what was fetched. In a life with the handles of the one before, that may
// be the answer to a request of that. w.mu is held.
func (l *loan) fetched(e *transport.BufferEvent) {
	w, life := l.machine.world(), l.machine.station.life
	c := w.cargoOf(l.crate.region.word())
	unknown := cargoKey{}
	switch {
	case life.birth != rebirthNew && (e.Length != l.wanted || c == nil || c.key != l.key):
		w.result.Faults[FaultStaleAnswer]++
		return
	case c == nil || !c.passive || c.key != l.key && c.key != unknown:
		w.violate("%v: has fetched what it did not ask for", l)
		return
	case e.Length != l.wanted || e.Offset != 0 || e.Length > c.n:
		w.violate("%v: has fetched %d bytes at %d, not %d", l, e.Length, e.Offset, l.wanted)
		return
	}
	l.contents(c, e.Length)
}

// contents looks at the memory behind n bytes of a cargo, and at the rest. w.mu is held.
func (l *loan) contents(c *cargo, n int) {
	r := l.crate.region
	err := r.holds(0, n, c.stream, 0)
	if err == nil {
		err = r.blank(n, r.n-n)
	}
	if err != nil {
		l.machine.world().violate("%v: %v", l, err)
	}
}

// word is the first one of the memory.
func (r *region) word() uint64 {
	var b [8]byte
	r.each(0, len(b), func(piece []byte, at int) bool { copy(b[at:], piece); return true })
	return binary.LittleEndian.Uint64(b[:])
}
