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

// payload is the data of one bulk transfer: the first n bytes of a stream.
type payload struct {
	stream  stream
	n       int
	passive bool

	// Guarded by world.mu.
	key       bufferKey // identifies the passive buffer; zero until the buffer was added
	delivered int       // how often a passive buffer received it; for the payload of an active buffer
}

// bufferKey identifies a passive buffer as LNet does. Two buffers may have the same key at different
// times: the next transfer machine with the same number counts its match bits from the start again
// (transport 6.4).
type bufferKey struct {
	member *member
	portal uint32
	bits   transport.MatchBits
}

const (
	payloadTag   = 0xca << 56 // first byte of the stream number of a payload; no other stream number begins with it
	payloadIndex = 1<<32 - 1
)

// newPayload creates a payload of n bytes with the next stream number. w.mu is not held.
func (w *world) newPayload(n int, passive bool, key bufferKey) *payload {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &payload{n: n, passive: passive, key: key}
	c.stream = stream(payloadTag | (w.seed&0xffffff)<<32 | uint64(len(w.payloads)))
	w.payloads = append(w.payloads, c)
	return c
}

// payloadOf returns the payload whose stream begins with word, or nil if no payload does. w.mu is held.
func (w *world) payloadOf(word uint64) *payload {
	k := word & payloadIndex
	if k >= uint64(len(w.payloads)) || uint64(w.payloads[k].stream) != word {
		return nil
	}
	return w.payloads[k]
}

// keyOf returns the key of the passive buffer that p describes. self is the member that holds the
// descriptor: it owns the buffer if the address is 0@lo.
func (w *world) keyOf(p *transport.Passive, self *member) bufferKey {
	return bufferKey{w.nidOwner(p.Address.NID, self), p.Address.Portal, p.MatchBits}
}

// announce adds a passive buffer and sends its descriptor to the machine at a. That machine reads the
// buffer if fetch is set, and otherwise writes to it. If mustSucceed is set, announce uses no timeouts,
// cancels or misuse. It returns nil if no buffer is free or m is stopping.
func (m *machine) announce(r *rand.Rand, to *member, a transport.Address, fetch, mustSucceed bool) *message {
	w, s := m.world(), m.layer
	e, release := m.endPoint(a)
	if e == nil {
		return nil
	}
	defer release()
	c := s.takeFree(&s.large, 3)
	if c == nil {
		return nil
	}
	l := &loan{tracked: c, queue: transport.PassiveBulkRecv, reading: true}
	c.buffer.Length = c.region.n
	if fetch {
		l.queue = transport.PassiveBulkSend
		c.buffer.Length = w.payloadLength(r)
		l.payload = w.newPayload(c.buffer.Length, true, bufferKey{})
		c.fill(l.payload.stream)
	} else {
		c.wipe()
	}
	if !mustSucceed && r.IntN(2) == 0 {
		l.deadline = time.Now().Add(time.Duration(1 + r.Int64N(int64(w.machines.timeoutMax))))
	}
	d := m.addPassive(l)
	if d == nil {
		return nil
	}
	if !mustSucceed && l.deadline.IsZero() && s.enter() {
		time.AfterFunc(time.Duration(1+r.Int64N(int64(w.machines.timeoutMax))), func() {
			l.cancel()
			s.leave()
		})
	}
	small := s.takeFree(&s.small, 2)
	if small == nil {
		l.cancel()
		return nil
	}
	x := w.newMessage(message{
		kind: messageAnnounce, from: m.address, to: a, sender: s.life.member, receiver: to, announced: l,
		misuse: !mustSucceed && r.IntN(8) == 0, short: !mustSucceed && r.IntN(2) == 0,
	}, messageMin, d)
	if _, err := m.post(x, small, e, 0, m.tm.Add); err != nil {
		l.cancel()
	}
	return x
}

// addPassive adds a passive buffer and returns its descriptor. It returns nil if the machine is stopping.
func (m *machine) addPassive(l *loan) transport.Descriptor {
	w, s, b := m.world(), m.layer, l.tracked.buffer
	if m.lend(l, m.tm.Add) != nil {
		s.putFree(l.tracked)
		return nil
	}
	d := bytes.Clone(b.Descriptor)
	p, err := transport.Descriptor(d).Decode()
	if err != nil || p.Address != m.address || p.Queue != l.queue || p.Size != b.Length {
		w.violate("%v: its descriptor says %+v, %v", l, p, err)
	}
	w.mu.Lock()
	if m.passiveBits[p.MatchBits] {
		w.violate("%v: its descriptor is that of another buffer: %+v", l, p)
	}
	m.passiveBits[p.MatchBits] = true
	if l.payload != nil {
		l.payload.key = w.keyOf(&p, s.life.member)
	}
	l.reading = false
	over := l.over
	w.mu.Unlock()
	if over {
		s.putFree(l.tracked)
	}
	return d
}

// payloadLength draws the length of a bulk transfer in bytes.
func (w *world) payloadLength(r *rand.Rand) int {
	limit := w.machines.payloadMax
	if r.IntN(4) > 0 {
		limit = min(limit, 8<<10)
	}
	return payloadMin + r.IntN(limit-payloadMin+1)
}

// transferAnnounced reads or writes the passive buffer that message x announces. It answers x when the
// transfer has succeeded.
func (m *machine) transferAnnounced(x *message, e *transport.BufferEvent) {
	w, s := m.world(), m.layer
	d := bytes.Clone(x.descriptor())
	p, err := transport.Descriptor(d).Decode()
	if err != nil {
		w.violate("%v: %v", x, err)
		return
	}
	c := s.takeFree(&s.large, 0)
	if c == nil {
		return
	}
	c.buffer.Descriptor = d
	l := &loan{tracked: c, queue: transport.ActiveBulkRecv, to: p.Address.NID, key: w.keyOf(&p, s.life.member)}
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
			n = payloadMin + int(x.number)%(n-payloadMin+1)
		}
		l.payload = w.newPayload(n, false, l.key)
		c.buffer.Length = n
		c.fill(l.payload.stream)
	}
	if x.misuse {
		m.misuse(l)
	}
	l.done = func(ok bool) {
		if !ok {
			return
		}
		if to, release := m.endPoint(x.from); to != nil {
			m.reply(x, to, m.tm.Add)
			release()
		}
	}
	if m.lend(l, e.Add) != nil {
		s.putFree(c)
	}
}

// misuse adds the loan's buffer to the queue for the wrong direction. The machine must refuse that with
// EPERM.
func (m *machine) misuse(l *loan) {
	w, b := m.world(), l.tracked.buffer
	b.Queue, b.Callbacks = transport.ActiveBulkRecv+transport.ActiveBulkSend-l.queue, &m.callbacks
	length := b.Length
	b.Length = 1
	err := m.tm.Add(b)
	b.Length = length
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, syscall.EPERM) {
		w.result.Actions[ActionMisused]++
	} else if !m.mayRefuse(err) {
		w.violate("%v: its descriptor is for the other direction, but the call returned: %v", l, err)
	}
}

// addPastDeadline adds a buffer whose deadline has passed. The machine must refuse that with ETIME.
func (m *machine) addPastDeadline(e *transport.EndPoint) {
	w, s := m.world(), m.layer
	c := s.takeFree(&s.small, 2)
	if c == nil {
		return
	}
	defer s.putFree(c)
	b := c.buffer
	b.Queue, b.Callbacks, b.EndPoint, b.Length = transport.MsgSend, &m.callbacks, e, messageMin
	b.Deadline = time.Now()
	err := m.tm.Add(b)
	b.Deadline = time.Time{}
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, syscall.ETIME) {
		w.result.Actions[ActionPastDeadline]++
	} else if !m.mayRefuse(err) {
		w.violate("%v: the deadline has passed, but the call returned: %v", m, err)
	}
}

// handleSuccess checks and counts an event without an error. The caller must call the returned functions
// after it has released w.mu, which it holds now.
func (l *loan) handleSuccess(e *transport.BufferEvent) []func() {
	w := l.machine.world()
	switch l.queue {
	case transport.MsgRecv:
		return l.handleReceived(e)
	case transport.PassiveBulkRecv:
		w.result.Actions[ActionPassiveRecv]++
		l.checkFilled(e)
	case transport.PassiveBulkSend:
		w.result.Actions[ActionPassiveSend]++
		k := l.passiveKey(e)
		if w.served[k]++; w.served[k] > w.fetches[k] {
			w.violate("%v: was fetched %d times, but the program requested it %d times", l, w.served[k], w.fetches[k])
		}
	case transport.ActiveBulkRecv:
		w.result.Actions[ActionActiveRecv]++
		l.checkFetched(e)
	case transport.ActiveBulkSend:
		w.result.Actions[ActionActiveSend]++
	}
	return nil
}

// passiveKey returns the key of the passive buffer that e belongs to. w.mu is held.
func (l *loan) passiveKey(e *transport.BufferEvent) bufferKey {
	w := l.machine.world()
	p, err := e.Buffer.Descriptor.Decode()
	if err != nil {
		w.violate("%v: %v", l, err)
	}
	return w.keyOf(&p, l.machine.layer.life.member)
}

// checkFilled checks the data that a peer wrote to a passive buffer: it must be a payload for this
// buffer that was not delivered before. w.mu is held.
func (l *loan) checkFilled(e *transport.BufferEvent) {
	w, r := l.machine.world(), l.tracked.region
	c := w.payloadOf(r.word())
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
	l.checkContents(c, e.Length)
}

// checkFetched checks the data that an active receive read from a passive buffer. If the node reuses the
// handles of its previous life, the data may instead answer a request of that life; this is counted and
// not a violation. w.mu is held.
func (l *loan) checkFetched(e *transport.BufferEvent) {
	w, life := l.machine.world(), l.machine.layer.life
	c := w.payloadOf(l.tracked.region.word())
	unknown := bufferKey{}
	switch {
	case life.restart != restartNew && (e.Length != l.wanted || c == nil || c.key != l.key):
		w.result.Faults[FaultStaleAnswer]++
		return
	case c == nil || !c.passive || c.key != l.key && c.key != unknown:
		w.violate("%v: has fetched what it did not ask for", l)
		return
	case e.Length != l.wanted || e.Offset != 0 || e.Length > c.n:
		w.violate("%v: has fetched %d bytes at %d, not %d", l, e.Length, e.Offset, l.wanted)
		return
	}
	l.checkContents(c, e.Length)
}

// checkContents checks that the memory begins with the first n bytes of c, and that the rest is
// unchanged. w.mu is held.
func (l *loan) checkContents(c *payload, n int) {
	r := l.tracked.region
	err := r.checkStream(0, n, c.stream, 0)
	if err == nil {
		err = r.checkBlank(n, r.n-n)
	}
	if err != nil {
		l.machine.world().violate("%v: %v", l, err)
	}
}

// word returns the first 8 bytes of the memory, which identify a stream.
func (r *region) word() uint64 {
	var b [8]byte
	r.each(0, len(b), func(piece []byte, at int) bool { copy(b[at:], piece); return true })
	return binary.LittleEndian.Uint64(b[:])
}
