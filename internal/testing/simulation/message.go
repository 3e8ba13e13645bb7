package simulation

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// messageKind is the purpose of a message between transfer machines.
type messageKind uint8

const (
	messagePlain    messageKind = iota
	messageRequest              // the receiver answers it
	messageAnnounce             // announces a passive buffer; the receiver answers it after it has used the buffer
	messageAnswer
)

// message is one message between transfer machines, with its intended effect and its outcome. Its
// content is a number, the kind, the length of a descriptor, the descriptor, and the rest of a stream.
type message struct {
	number    uint64
	kind      messageKind
	from, to  transport.Address
	sender    *member
	receiver  *member
	content   []byte
	never     bool          // no buffer is large enough
	late      time.Duration // delay of the answer
	misuse    bool          // the receiver first uses the descriptor in the wrong direction
	short     bool          // the receiver writes less than the passive buffer has room for
	request   *message      // the message that this one answers
	announced *loan         // the loan of the passive buffer that this message announces

	// Guarded by world.mu.
	received int
	refused  bool // Add returned an error
	answered bool
}

const (
	messageHeader = 12
	messageTag    = 0x1e << 56 // first byte of message numbers; no other stream number begins with it
	messageIndex  = 1<<32 - 1
)

func (x *message) String() string {
	return fmt.Sprintf("message %d (kind %d, %v -> %v, %d bytes)", x.number&messageIndex, x.kind, x.from, x.to, len(x.content))
}

// newMessage completes x with the next number and the encoded content. The content has length bytes, or
// more if descriptor d needs more. w.mu is not held.
func (w *world) newMessage(x message, length int, d transport.Descriptor) *message {
	w.mu.Lock()
	x.number = messageTag | (w.seed&0xffffff)<<32 | uint64(len(w.messages))
	w.messages = append(w.messages, &x)
	w.mu.Unlock()
	x.content = make([]byte, max(length, messageHeader+len(d)))
	stream(x.number).fill(x.content, 0)
	binary.LittleEndian.PutUint64(x.content, x.number)
	x.content[8], x.content[9] = byte(x.kind), byte(len(d))
	copy(x.content[messageHeader:], d)
	return &x
}

// messageOf returns the message with the given content, or nil if no such message was created. w.mu is
// held.
func (w *world) messageOf(content []byte) *message {
	if len(content) < messageHeader {
		return nil
	}
	k := binary.LittleEndian.Uint64(content) & messageIndex
	if k >= uint64(len(w.messages)) || string(w.messages[k].content) != string(content) {
		return nil
	}
	return w.messages[k]
}

// refuseMessage records that Add refused the message, so that it must not arrive.
func (w *world) refuseMessage(x *message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.refused = true
	if x.received > 0 {
		w.violate("%v: refused, but it was received", x)
	}
}

// descriptor returns the encoded descriptor in the message.
func (x *message) descriptor() transport.Descriptor {
	return transport.Descriptor(x.content[messageHeader:][:x.content[9]])
}

// receive adds c with add to the machine's receive queue.
func (m *machine) receive(c *trackedBuffer, add func(*transport.Buffer) error) {
	c.wipe()
	c.buffer.MinReceiveSize, c.buffer.MaxMessages = messageMax, m.maxMessages
	_ = m.lend(&loan{tracked: c, queue: transport.MsgRecv}, add) // fails if the machine is stopping
}

// addAgain returns a function that adds the receive buffer again after its final event, or puts it back
// into its pool. w.mu is held, and must not be held when the function is called.
func (l *loan) addAgain(e *transport.BufferEvent) func() {
	m, c := l.machine, l.tracked
	if c.region == nil {
		return func() {
			if err := m.layer.pool.Put(c.buffer, m.colour); err != nil {
				m.world().violate("%v: put: %v", l, err)
			}
		}
	}
	if m.stopping || m.layer.life.ending {
		return func() {}
	}
	add := m.tm.Add
	if m.index%2 == 0 {
		add = e.Add
	}
	return func() { m.receive(c, add) }
}

// post sends x from buffer c to e. add is the Add method of the transfer machine or of an event. If add
// returns an error, c is free again.
func (m *machine) post(x *message, c *trackedBuffer, e *transport.EndPoint, timeout time.Duration, add func(*transport.Buffer) error) (*loan, error) {
	c.write(x.content)
	c.buffer.Length, c.buffer.EndPoint = len(x.content), e
	l := &loan{tracked: c, queue: transport.MsgSend, message: x, to: x.to.NID}
	if timeout > 0 {
		l.deadline = time.Now().Add(timeout)
	}
	err := m.lend(l, add)
	if err != nil {
		m.world().refuseMessage(x)
		m.layer.putFree(c)
	}
	return l, err
}

// endPoint returns the end point of an address. The caller must call release after use. It returns nil
// and nil if the machine is stopping.
func (m *machine) endPoint(a transport.Address) (e *transport.EndPoint, release func()) {
	w := m.world()
	w.mu.Lock()
	m.endPoints++
	w.mu.Unlock()
	e, err := m.tm.EndPointAt(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		m.endPoints--
		if !m.mayRefuse(err) {
			w.violate("%v: end point %v: %v", m, a, err)
		}
		return nil, nil
	}
	return e, func() {
		e.Put()
		w.mu.Lock()
		m.endPoints--
		w.mu.Unlock()
	}
}

// handleReceived checks a received message. The caller must call the returned functions after it has
// released w.mu, which it holds now.
func (l *loan) handleReceived(e *transport.BufferEvent) []func() {
	m, w := l.machine, l.machine.world()
	content := make([]byte, e.Length)
	e.CopyTo(content)
	x := w.messageOf(content)
	if x == nil {
		w.violate("%v: a message that no machine has sent: % x", l, content[:min(len(content), 16)])
		return nil
	}
	w.addf("%v took %v", l, x)
	switch {
	case x.never:
		w.violate("%v took %v, which is too long", l, x)
	case x.to.TMID != m.address.TMID || x.to.Portal != m.address.Portal || x.receiver != m.layer.life.member:
		w.violate("%v took %v, which is another's", l, x)
	case x.refused:
		w.violate("%v took %v, which was refused", l, x)
	case x.received > 0:
		w.violate("%v took %v again", l, x)
	case e.EndPoint == nil || e.EndPoint.Address() != x.from:
		w.violate("%v took %v, from %v", l, x, e.EndPoint)
	}
	x.received++
	l.checkPlacement(e, x)
	w.result.Actions[ActionMessage]++
	if len(l.taken) > 1 {
		w.result.Actions[ActionShared]++
	}
	switch x.kind {
	case messageAnswer:
		w.result.Actions[ActionAnswer]++
		x.request.answered = true
	case messageRequest:
		return []func(){func() { m.answer(x, e) }}
	case messageAnnounce:
		return []func(){func() { m.transferAnnounced(x, e) }}
	}
	return nil
}

// checkPlacement checks that a message in a receive buffer overlaps no other, and that the buffer came
// back when it was full and not before. w.mu is held.
func (l *loan) checkPlacement(e *transport.BufferEvent, x *message) {
	w, b := l.machine.world(), l.tracked.buffer
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

// checkUnchanged checks that the messages in a receive buffer have not changed. w.mu is held.
func (l *loan) checkUnchanged() {
	for _, d := range l.taken {
		if !holds(l.tracked.buffer, d.off, d.message.content) {
			l.machine.world().violate("%v: %v has changed", l, d.message)
		}
	}
}

// answer sends the answer to x: immediately, or after the delay in x.
func (m *machine) answer(x *message, e *transport.BufferEvent) {
	if x.late == 0 || !m.layer.enter() {
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
	m.endPoints++
	w.mu.Unlock()
	time.AfterFunc(x.late, func() {
		if m.reply(x, to, m.tm.Add) {
			w.countAction(ActionLateAnswer)
		}
		to.Put()
		w.mu.Lock()
		m.endPoints--
		w.mu.Unlock()
		m.layer.leave()
	})
}

// reply sends the answer to x. It returns false if no buffer is free or the machine is stopping.
func (m *machine) reply(x *message, to *transport.EndPoint, add func(*transport.Buffer) error) bool {
	c := m.layer.takeFree(&m.layer.small, 0)
	if c == nil {
		return false
	}
	a := m.world().newMessage(message{
		kind: messageAnswer, from: m.address, to: to.Address(), sender: m.layer.life.member, receiver: x.sender, request: x,
	}, messageMin+int(x.number%(messageMax-messageMin)), nil)
	_, err := m.post(a, c, to, 0, add)
	return err == nil
}

// ask sends a message to address a of member to. If mustSucceed is set, it uses no timeouts, cancels or
// invalid buffers, and the receiver answers the message. It returns nil if no buffer is free or m is
// stopping.
func (m *machine) ask(r *rand.Rand, to *member, a transport.Address, mustSucceed bool) *message {
	w := m.world()
	x := message{kind: messageKind(r.IntN(2)), from: m.address, to: a, sender: m.layer.life.member, receiver: to}
	n, timeout := messageMin+r.IntN(messageMax-messageMin+1), time.Duration(0)
	if mustSucceed {
		x.kind = messageRequest
	} else {
		timeout = m.timeout(r)
		if r.IntN(4) == 0 {
			x.late = time.Duration(1 + r.Int64N(int64(time.Second)))
		}
	}
	e, release := m.endPoint(a)
	if e == nil {
		return nil
	}
	defer release()
	if !mustSucceed && r.IntN(20) == 0 {
		m.addPastDeadline(e)
	}
	long := !mustSucceed && r.IntN(20) == 0
	from := &m.layer.small
	if long {
		from = &m.layer.large
		n, x.never = messageMax+1+r.IntN(messageMax), true
	}
	c := m.layer.takeFree(from, 2)
	if c == nil {
		return nil
	}
	if long {
		w.countAction(ActionTooLong)
	}
	sent := w.newMessage(x, n, nil)
	l, err := m.post(sent, c, e, timeout, m.tm.Add)
	if err == nil && !mustSucceed && r.IntN(10) == 0 {
		pause(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
		l.cancel()
	}
	return sent
}

// timeout draws a timeout for a message. 0 means no timeout.
func (m *machine) timeout(r *rand.Rand) time.Duration {
	switch r.IntN(4) {
	case 0:
		return time.Duration(1 + r.Int64N(int64(m.world().machines.timeoutMax)))
	case 1:
		return time.Duration(1 + r.Int64N(int64(20*time.Millisecond)))
	}
	return 0
}

// nidOwner returns the member with a NID, or nil. 0@lo belongs to self.
func (w *world) nidOwner(nid lnet.NID, self *member) *member {
	if nid.IsLoopback() {
		return self
	}
	return w.owner(nid)
}
