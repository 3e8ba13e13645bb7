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

// cargo is the data of one bulk transfer. It is the beginning of a stream.
type cargo struct {
	stream  stream
	n       int
	passive bool

	// Guarded by world.mu.
	key       cargoKey // of the passive buffer; set when it is known
	delivered int      // for active buffers
}

// cargoKey is what LNet uses to find a passive buffer. It is not unique over time, because the next
// machine with the same number starts to count again (transport 6.4).
type cargoKey struct {
	member *member
	portal uint32
	bits   transport.MatchBits
}

const (
	cargoTag   = 0xca << 56 // first byte of the stream numbers of cargoes, unique to them
	cargoIndex = 1<<32 - 1
)

// newCargo creates a cargo with the next number. w.mu is not held.
func (w *world) newCargo(n int, passive bool, key cargoKey) *cargo {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &cargo{n: n, passive: passive, key: key}
	c.stream = stream(cargoTag | (w.seed&0xffffff)<<32 | uint64(len(w.cargoes)))
	w.cargoes = append(w.cargoes, c)
	return c
}

// cargoOf returns the cargo with a stream that begins with word, or nil. w.mu is held.
func (w *world) cargoOf(word uint64) *cargo {
	k := word & cargoIndex
	if k >= uint64(len(w.cargoes)) || uint64(w.cargoes[k].stream) != word {
		return nil
	}
	return w.cargoes[k]
}

// keyOf returns the key in a descriptor, from the member's point of view.
func (w *world) keyOf(p *transport.Passive, self *member) cargoKey {
	return cargoKey{w.nidOwner(p.Address.NID, self), p.Address.Portal, p.MatchBits}
}

// announce adds a passive buffer that the peer reads or writes, and sends its descriptor to another
// machine. calm is set when every operation must succeed.
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

// expose adds a passive buffer and returns its descriptor. It returns nil if the machine is stopping.
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

// cargoLength draws the length of a bulk transfer in bytes.
func (w *world) cargoLength(r *rand.Rand) int {
	limit := w.machines.cargoMax
	if r.IntN(4) > 0 {
		limit = min(limit, 8<<10)
	}
	return cargoMin + r.IntN(limit-cargoMin+1)
}

// use transfers the bulk data that a letter announces, and then answers the letter.
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

// misuse uses a descriptor in the wrong direction, which must be refused.
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

// past adds a buffer with a deadline in the past, which must be refused.
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

// succeeded handles an event without an error, and returns functions to call without the lock. w.mu is
// held.
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

// passiveKey returns the key of a passive buffer from its final event.
func (l *loan) passiveKey(e *transport.BufferEvent) cargoKey {
	w := l.machine.world()
	p, err := e.Buffer.Descriptor.Decode()
	if err != nil {
		w.violate("%v: %v", l, err)
	}
	return w.keyOf(&p, l.machine.station.life.member)
}

// filled checks the data that a peer wrote to a passive buffer. w.mu is held.
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

// fetched checks the data that was fetched. In a life that reuses the handles of the previous one, it may
// be the answer to a request of that life. w.mu is held.
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

// contents checks that the memory holds n bytes of a cargo, and that the rest is unchanged. w.mu is held.
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

// word returns the first word of the memory.
func (r *region) word() uint64 {
	var b [8]byte
	r.each(0, len(b), func(piece []byte, at int) bool { copy(b[at:], piece); return true })
	return binary.LittleEndian.Uint64(b[:])
}
