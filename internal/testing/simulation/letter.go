package simulation

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// letterKind is the purpose of a message between machines.
type letterKind uint8

const (
	letterPlain    letterKind = iota
	letterQuestion            // is answered
	letterAnnounce            // announces a passive buffer; answered after the buffer was used
	letterAnswer
)

// letter is one message between machines: its intended effect and its outcome. On the wire it is a
// number, a kind, the length of a descriptor, the descriptor, and a stream.
type letter struct {
	number    uint64
	kind      letterKind
	from, to  transport.Address
	sender    *member
	receiver  *member
	content   []byte
	never     bool          // no buffer is large enough
	late      time.Duration // delay of the answer
	misuse    bool          // its descriptor is first used in the wrong direction
	short     bool          // less is sent than was asked for
	question  *letter       // the question that it answers
	announced *loan         // the buffer that it announces

	// Guarded by world.mu.
	received int
	refused  bool // it was not sent
	answered bool
}

const (
	letterHead  = 12
	letterTag   = 0x1e << 56 // first byte of letter numbers, which no other stream has
	letterIndex = 1<<32 - 1
)

func (x *letter) String() string {
	return fmt.Sprintf("letter %d (kind %d, %v -> %v, %d bytes)", x.number&letterIndex, x.kind, x.from, x.to, len(x.content))
}

// newLetter creates a letter with the next number and encodes it. w.mu is not held.
func (w *world) newLetter(x letter, length int, d transport.Descriptor) *letter {
	w.mu.Lock()
	x.number = letterTag | (w.seed&0xffffff)<<32 | uint64(len(w.letters))
	w.letters = append(w.letters, &x)
	w.mu.Unlock()
	x.content = make([]byte, max(length, letterHead+len(d)))
	stream(x.number).fill(x.content, 0)
	binary.LittleEndian.PutUint64(x.content, x.number)
	x.content[8], x.content[9] = byte(x.kind), byte(len(d))
	copy(x.content[letterHead:], d)
	return &x
}

// letterOf returns the letter with the given content, or nil. w.mu is held.
func (w *world) letterOf(content []byte) *letter {
	if len(content) < letterHead {
		return nil
	}
	k := binary.LittleEndian.Uint64(content) & letterIndex
	if k >= uint64(len(w.letters)) || string(w.letters[k].content) != string(content) {
		return nil
	}
	return w.letters[k]
}

// refuseLetter records that a letter was not sent.
func (w *world) refuseLetter(x *letter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.refused = true
	if x.received > 0 {
		w.violate("%v: refused, but it was received", x)
	}
}

// descriptor returns the descriptor in the letter.
func (x *letter) descriptor() transport.Descriptor {
	return transport.Descriptor(x.content[letterHead:][:x.content[9]])
}

// receive adds a receive buffer.
func (m *machine) receive(c *crate, add func(*transport.Buffer) error) {
	c.wipe()
	c.buffer.MinReceiveSize, c.buffer.MaxMessages = letterMax, m.maxMessages
	_ = m.lend(&loan{crate: c, queue: transport.MsgRecv}, add) // fails if the machine is stopping
}

// again adds a receive buffer again, or returns it to its pool.
func (l *loan) again(e *transport.BufferEvent) func() {
	m, c := l.machine, l.crate
	if c.region == nil {
		return func() {
			if err := m.station.pool.Put(c.buffer, m.colour); err != nil {
				m.world().violate("%v: put: %v", l, err)
			}
		}
	}
	if m.stopping || m.station.life.ending {
		return func() {}
	}
	add := m.tm.Add
	if m.index%2 == 0 {
		add = e.Add
	}
	return func() { m.receive(c, add) }
}

// post sends a letter from a crate. add is the Add of the transfer machine or of a callback.
func (m *machine) post(x *letter, c *crate, e *transport.EndPoint, timeout time.Duration, add func(*transport.Buffer) error) (*loan, error) {
	c.write(x.content)
	c.buffer.Length, c.buffer.EndPoint = len(x.content), e
	l := &loan{crate: c, queue: transport.MsgSend, letter: x, to: x.to.NID}
	if timeout > 0 {
		l.deadline = time.Now().Add(timeout)
	}
	err := m.lend(l, add)
	if err != nil {
		m.world().refuseLetter(x)
		m.station.giveBack(c)
	}
	return l, err
}

// to returns an end point for the address. The caller must call release after use. It returns nil if the
// machine is stopping.
func (m *machine) to(a transport.Address) (e *transport.EndPoint, release func()) {
	w := m.world()
	w.mu.Lock()
	m.held++
	w.mu.Unlock()
	e, err := m.tm.EndPointAt(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		m.held--
		if !m.mayRefuse(err) {
			w.violate("%v: end point %v: %v", m, a, err)
		}
		return nil, nil
	}
	return e, func() {
		e.Put()
		w.mu.Lock()
		m.held--
		w.mu.Unlock()
	}
}

// arrived handles a received message, and returns functions to call without the lock. w.mu is held.
func (l *loan) arrived(e *transport.BufferEvent) []func() {
	m, w := l.machine, l.machine.world()
	content := make([]byte, e.Length)
	e.CopyTo(content)
	x := w.letterOf(content)
	if x == nil {
		w.violate("%v: a message that nobody has sent: % x", l, content[:min(len(content), 16)])
		return nil
	}
	w.addf("%v took %v", l, x)
	switch {
	case x.never:
		w.violate("%v took %v, which is too long", l, x)
	case x.to.TMID != m.address.TMID || x.to.Portal != m.address.Portal || x.receiver != m.station.life.member:
		w.violate("%v took %v, which is another's", l, x)
	case x.refused:
		w.violate("%v took %v, which was refused", l, x)
	case x.received > 0:
		w.violate("%v took %v again", l, x)
	case e.EndPoint == nil || e.EndPoint.Address() != x.from:
		w.violate("%v took %v, from %v", l, x, e.EndPoint)
	}
	x.received++
	l.room(e, x)
	w.result.Deeds[DeedMessage]++
	if len(l.taken) > 1 {
		w.result.Deeds[DeedShared]++
	}
	switch x.kind {
	case letterAnswer:
		w.result.Deeds[DeedAnswer]++
		x.question.answered = true
	case letterQuestion:
		return []func(){func() { m.answer(x, e) }}
	case letterAnnounce:
		return []func(){func() { m.use(x, e) }}
	}
	return nil
}

// room checks the place of a message in the receive buffer. w.mu is held.
func (l *loan) room(e *transport.BufferEvent, x *letter) {
	w, b := l.machine.world(), l.crate.buffer
	s := span{e.Offset, e.Length}
	for _, d := range l.taken {
		if d.off < s.off+s.n && s.off < d.off+d.n {
			w.violate("%v: a message at %v, where one is at %v", l, s, d.span)
		}
	}
	l.taken = append(l.taken, delivery{s, x})
	l.used += s.n
	n, free := len(l.taken), b.Size()-l.used
	if s.off+s.n > b.Size() || n > b.MaxMessages || n != b.MessagesReceived() || !e.Final && n == b.MaxMessages {
		w.violate("%v: message %d of %d, %d by its own account, at %v, final %t", l, n, b.MaxMessages, b.MessagesReceived(), s, e.Final)
	}
	if w.faultless() && e.Final && n < b.MaxMessages && free >= b.MinReceiveSize && !l.cancelled && !l.machine.aborted {
		w.violate("%v: came back with room for %d bytes, after %d of %d messages", l, free, n, b.MaxMessages)
	}
}

// intact checks that the messages in a receive buffer have not changed. w.mu is held.
func (l *loan) intact() {
	for _, d := range l.taken {
		if !holds(l.crate.buffer, d.off, d.letter.content) {
			l.machine.world().violate("%v: %v has changed", l, d.letter)
		}
	}
}

// answer answers a letter, in its callback or later.
func (m *machine) answer(x *letter, e *transport.BufferEvent) {
	if x.late == 0 || !m.station.enter() {
		add := m.tm.Add
		if x.number%2 == 0 {
			add = e.Add
		}
		m.reply(x, e.EndPoint, add)
		return
	}
	w := m.world()
	to := e.EndPoint.Get()
	w.mu.Lock()
	m.held++
	w.mu.Unlock()
	time.AfterFunc(x.late, func() {
		if m.reply(x, to, m.tm.Add) {
			w.countDeed(DeedLateAnswer)
		}
		to.Put()
		w.mu.Lock()
		m.held--
		w.mu.Unlock()
		m.station.leave()
	})
}

// reply sends an answer. It returns false if no crate is free or the machine is stopping.
func (m *machine) reply(x *letter, to *transport.EndPoint, add func(*transport.Buffer) error) bool {
	c := m.station.take(&m.station.small, 0)
	if c == nil {
		return false
	}
	a := m.world().newLetter(letter{
		kind: letterAnswer, from: m.address, to: to.Address(), sender: m.station.life.member, receiver: x.sender, question: x,
	}, letterMin+int(x.number%(letterMax-letterMin)), nil)
	_, err := m.post(a, c, to, 0, add)
	return err == nil
}

// ask sends a letter to a member's address. calm is set when every operation must succeed.
func (m *machine) ask(r *rand.Rand, to *member, a transport.Address, calm bool) *letter {
	w := m.world()
	x := letter{kind: letterKind(r.IntN(2)), from: m.address, to: a, sender: m.station.life.member, receiver: to}
	n, timeout := letterMin+r.IntN(letterMax-letterMin+1), time.Duration(0)
	if calm {
		x.kind = letterQuestion
	} else {
		timeout = m.timeout(r)
		if r.IntN(4) == 0 {
			x.late = time.Duration(1 + r.Int64N(int64(time.Second)))
		}
	}
	e, release := m.to(a)
	if e == nil {
		return nil
	}
	defer release()
	if !calm && r.IntN(20) == 0 {
		m.past(e)
	}
	long := !calm && r.IntN(20) == 0
	from := &m.station.small
	if long {
		from = &m.station.large
		n, x.never = letterMax+1+r.IntN(letterMax), true
	}
	c := m.station.take(from, 2)
	if c == nil {
		return nil
	}
	if long {
		w.countDeed(DeedTooLong)
	}
	sent := w.newLetter(x, n, nil)
	l, err := m.post(sent, c, e, timeout, m.tm.Add)
	if err == nil && !calm && r.IntN(10) == 0 {
		pause(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
		l.cancel()
	}
	return sent
}

// timeout draws a timeout. 0 means none.
func (m *machine) timeout(r *rand.Rand) time.Duration {
	switch r.IntN(4) {
	case 0:
		return time.Duration(1 + r.Int64N(int64(m.world().machines.alert)))
	case 1:
		return time.Duration(1 + r.Int64N(int64(20*time.Millisecond)))
	}
	return 0
}

// nidOwner returns the member with an address, from the point of view of another member.
func (w *world) nidOwner(nid lnet.NID, self *member) *member {
	if nid.IsLoopback() {
		return self
	}
	return w.owner(nid)
}
