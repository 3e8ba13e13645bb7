package nettest

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// pingClient is the client of a ping test. It sends messages to servers and checks that they come back
// unchanged.
type pingClient struct {
	clientWork
	slots []pingSlot
	head  [message.PingHead]byte
}

// pingSlot sends one message after the other; a client has as many slots as concurrent messages.
type pingSlot struct {
	server   int
	buffer   *transport.Buffer
	sequence uint64
	sent     time.Time
	failures int // number of consecutive failures
	// sending is set while the buffer is queued, and waiting while the answer is outstanding. again is set
	// if the next tick must send the message again, and done if the slot will send no more messages.
	sending, waiting, again, done bool
}

func (p *pingClient) prepare(ctx context.Context) error {
	n := len(p.test.Peers)
	if err := p.resolveServers(); err != nil {
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

// next sends the next message of slot k. It sets done if no messages are left.
func (p *pingClient) next(k int) {
	s := &p.slots[k]
	if !p.takeNext(s.server) {
		s.done = true
		return
	}
	s.failures = 0
	p.send(k)
}

// send sends the message of slot k.
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

// failed makes the next tick send the message of slot k again, unless it has failed too often or the
// time of the test is over.
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

// slotFree sends the next message of slot k. It is called when the slot's buffer is free and its answer
// has arrived or has timed out.
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

// matchAnswer returns the slot that sent the message which has come back. It returns false if no slot
// waits for this message.
func (p *pingClient) matchAnswer(e *transport.BufferEvent) (slot int, ok bool) {
	h, ok := message.ParsePing(p.head[:e.CopyTo(p.head[:])])
	if !ok || e.Length != p.test.Size || h.Slot >= uint64(len(p.slots)) {
		return 0, false
	}
	s := &p.slots[h.Slot]
	if !s.waiting || h.Sequence != s.sequence {
		return 0, false
	}
	// The NIDs may differ, because a server may answer from another one of its NIDs.
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

// pingServer is the server of a ping test. It sends messages back to their senders. If a receive buffer
// holds one message, it sends that buffer; otherwise it copies the message to another buffer.
type pingServer struct {
	*testRun
	free []*transport.Buffer // free buffers for answers, if a receive buffer holds several messages
	head [message.PingHead]byte
}

func (p *pingServer) prepare(ctx context.Context) error {
	callbacks := &transport.Callbacks{transport.MsgRecv: p.locked(p.received), transport.MsgSend: p.locked(p.sent)}
	// Each client has up to Concurrency messages in flight. For each of them there may also be an earlier
	// answer whose final event has not come yet.
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

// answerIn returns a buffer that contains the answer. It returns nil if the message is not a ping or no
// buffer is free.
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

// release frees the buffer of an answer, or queues it again if it is a receive buffer.
func (p *pingServer) release(b *transport.Buffer) {
	b.EndPoint = nil
	if b.MinReceiveSize > 0 {
		p.receiveAgain(b)
		return
	}
	p.free = append(p.free, b)
}
