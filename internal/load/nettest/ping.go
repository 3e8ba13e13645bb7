package nettest

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// pingClient sends messages, and checks the answers.
type pingClient struct {
	workShare
	slots []pingSlot
	head  [message.PingHead]byte
}

// pingSlot is one of the concurrent messages.
type pingSlot struct {
	server   int
	buffer   *transport.Buffer
	sequence uint64
	sent     time.Time
	failures int // in a row
	// sending is set while the buffer is queued, waiting while the answer is outstanding, again if the
	// next tick must send the message again, and done if nothing is left to do.
	sending, waiting, again, done bool
}

func (p *pingClient) prepare(ctx context.Context) error {
	n := len(p.test.Peers)
	if err := p.find(); err != nil {
		return err
	}
	callbacks := &transport.Callbacks{transport.MsgRecv: p.locked(p.received), transport.MsgSend: p.locked(p.sent)}
	p.slots = make([]pingSlot, n*p.test.Concurrency)
	for k := range p.slots {
		b, err := p.newBuffer(ctx, p.test.Size, callbacks)
		if err != nil {
			return err
		}
		b.Data, b.Length = k, p.test.Size
		p.slots[k] = pingSlot{server: k % n, buffer: b}
	}
	return p.receiveMessages(ctx, len(p.slots), p.test.Size, callbacks)
}

func (p *pingClient) begin() {
	for k := range p.slots {
		p.next(k)
	}
}

// next begins the next message of a slot, if any is left.
func (p *pingClient) next(k int) {
	s := &p.slots[k]
	if !p.beginOne(s.server) {
		s.done = true
		return
	}
	s.failures = 0
	p.send(k)
}

// send sends the message of a slot.
func (p *pingClient) send(k int) {
	s := &p.slots[k]
	s.sequence++
	s.sent, s.again = time.Now(), false
	message.PingHeader{Slot: uint64(k), Sequence: s.sequence, Sent: uint64(s.sent.UnixNano())}.Put(p.head[:])
	b := s.buffer
	b.CopyIn(0, p.head[:])
	b.Queue, b.EndPoint, b.Deadline = transport.MsgSend, p.servers[s.server], s.sent.Add(p.test.Timeout)
	s.sending, s.waiting = true, true
	if err := p.loop.TM.Add(b); err != nil {
		s.sending = false
		count(&p.figures.Sent, err)
		p.failed(k)
	}
}

// failed makes the next tick send a message again, unless it has failed too often.
func (p *pingClient) failed(k int) {
	s := &p.slots[k]
	s.waiting = false
	if s.failures++; s.failures >= failuresMax || p.timeOver(time.Now()) {
		s.again, s.done = false, true
		return
	}
	s.again = true
}

func (p *pingClient) sent(e *transport.BufferEvent) {
	k, _ := e.Buffer.Data.(int)
	s := &p.slots[k]
	s.sending = false
	count(&p.figures.Sent, e.Err)
	if e.Err == nil {
		p.figures.BytesOut += uint64(p.test.Size)
	}
	switch {
	case !s.waiting:
		p.slotFree(k)
	case e.Err != nil:
		p.failed(k)
	}
}

// slotFree continues with a slot whose buffer is free again, and whose answer has arrived or is not
// expected any more.
func (p *pingClient) slotFree(k int) {
	if s := &p.slots[k]; !s.again && !s.done {
		p.next(k)
	}
}

func (p *pingClient) received(e *transport.BufferEvent) {
	switch {
	case e.Err != nil:
		count(&p.figures.Received, e.Err)
	default:
		p.figures.Received.Total++
		if k, ok := p.matchAnswer(e); ok {
			p.figures.BytesIn += uint64(e.Length)
			p.roundTrip(p.slots[k].sent)
			p.slots[k].waiting = false
			if !p.slots[k].sending {
				p.slotFree(k)
			}
		} else {
			p.figures.Received.Bad++
		}
	}
	if e.Final {
		p.receiveAgain(e.Buffer)
	}
}

// matchAnswer returns the slot of a returned message. It returns false if no slot waits for that message.
func (p *pingClient) matchAnswer(e *transport.BufferEvent) (slot int, ok bool) {
	h, ok := message.ParsePing(p.head[:e.CopyTo(p.head[:])])
	if !ok || e.Length != p.test.Size || h.Slot >= uint64(len(p.slots)) {
		return 0, false
	}
	s := &p.slots[h.Slot]
	if !s.waiting || h.Sequence != s.sequence {
		return 0, false
	}
	// A server may answer from another of its NIDs.
	from, to := e.EndPoint.Address(), p.servers[s.server].Address()
	from.NID = to.NID
	return int(h.Slot), from == to
}

func (p *pingClient) tick(now time.Time) {
	for k := range p.slots {
		s := &p.slots[k]
		if s.waiting && !s.sending && now.Sub(s.sent) > p.test.Timeout {
			p.figures.Received.Total++
			p.figures.Received.Failed++
			p.failed(k)
		}
		if s.again && !s.sending {
			p.send(k)
		}
	}
}

func (p *pingClient) flush() {}

func (p *pingClient) finished() bool {
	for k := range p.slots {
		if s := &p.slots[k]; !s.done || s.sending {
			return false
		}
	}
	return true
}

// pingServer sends messages back to their senders. With one message per buffer, it sends the buffer that
// received the message.
type pingServer struct {
	*testRun
	free []*transport.Buffer // for answers, with several messages per buffer
	head [message.PingHead]byte
}

func (p *pingServer) prepare(ctx context.Context) error {
	callbacks := &transport.Callbacks{transport.MsgRecv: p.locked(p.received), transport.MsgSend: p.locked(p.sent)}
	// Each client has Concurrency messages under way. For each, the previous answer may not be complete
	// when the next message arrives.
	n := 2 * p.test.Concurrency * len(p.test.Peers)
	if p.perBuffer(p.test.Size) > 1 {
		for range n {
			b, err := p.newBuffer(ctx, p.test.Size, callbacks)
			if err != nil {
				return err
			}
			p.free = append(p.free, b)
		}
	}
	return p.receiveMessages(ctx, n, p.test.Size, callbacks)
}

func (p *pingServer) begin()           {}
func (p *pingServer) tick(_ time.Time) {}
func (p *pingServer) flush()           {}
func (p *pingServer) end()             {}
func (p *pingServer) finished() bool   { return true }

func (p *pingServer) received(e *transport.BufferEvent) {
	if e.Err != nil {
		count(&p.figures.Received, e.Err)
		if e.Final {
			p.receiveAgain(e.Buffer)
		}
		return
	}
	p.figures.Received.Total++
	b := p.answerIn(e)
	if b == nil {
		if e.Final {
			p.receiveAgain(e.Buffer)
		}
		return
	}
	p.figures.BytesIn += uint64(e.Length)
	b.Queue, b.EndPoint, b.Length = transport.MsgSend, e.EndPoint, e.Length
	b.Deadline = time.Now().Add(p.test.Timeout)
	if err := p.loop.TM.Add(b); err != nil {
		count(&p.figures.Sent, err)
		p.release(b)
	}
	if b != e.Buffer && e.Final {
		p.receiveAgain(e.Buffer)
	}
}

// answerIn returns the buffer with the answer, or nil if there is no answer.
func (p *pingServer) answerIn(e *transport.BufferEvent) *transport.Buffer {
	if _, ok := message.ParsePing(p.head[:e.CopyTo(p.head[:])]); !ok {
		p.figures.Received.Bad++
		return nil
	}
	if e.Final && e.Offset == 0 && e.Buffer.MaxMessages == 1 {
		return e.Buffer
	}
	if len(p.free) == 0 {
		p.figures.Sent.Total++
		p.figures.Sent.Failed++
		return nil
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	e.CopyTo(b.Bytes())
	return b
}

func (p *pingServer) sent(e *transport.BufferEvent) {
	count(&p.figures.Sent, e.Err)
	if e.Err == nil {
		p.figures.BytesOut += uint64(e.Buffer.Length)
	}
	p.release(e.Buffer)
}

// release frees the buffer of an answer, or makes it a receive buffer again.
func (p *pingServer) release(b *transport.Buffer) {
	b.EndPoint = nil
	if b.MinReceiveSize > 0 {
		p.receiveAgain(b)
		return
	}
	p.free = append(p.free, b)
}
