package mpilnd

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// mostCopied is the most bytes of payloads that wait for a peer in memory of the driver, if they are more than one. Answers
// to GETs have the same limit apart from that: the peer receives them, even if it does not place a PUT. With more, copies leave the processor's caches before they are sent, which costs a sixth of the throughput.
const mostCopied = 2 << 20

// unused holds records of messages for reuse.
type unused struct {
	outgoing []*outgoing
	arrivals []*arrival
}

// outgoing is a message that was started. It is complete when tx is nil. It lives on while MPI has requests of it.
type outgoing struct {
	p        *peer
	tx       *lnd.Tx
	index    int // in link.active
	requests int // not complete
	tag      uint32
	// stray means that of a large message and its payload perhaps only one was sent. The peer may have to receive a
	// payload with the tag, or wait for one, so the tag must not be used again.
	stray  bool
	copied int // length of the payload, if it was sent separately

	// The following fields belong to an optimized GET.
	get       bool
	receiving bool   // the receive of the answer is not complete
	receive   uint64 // the receive's ID
	copy      []byte // memory of the driver for the answer; nil if it is received into the sink
	err       error  // why there will be no answer
	status    lnd.Status
	refused   bool // a Nak has arrived
}

// send queues a message, and starts it if that is possible.
func (p *peer) send(tx *lnd.Tx) {
	p.await()
	if p.queue.push(tx); p.local == 0 {
		p.call()
		return
	}
	p.flush()
}

// flush starts messages as long as the peer takes them, and tags and memory for copies are left.
func (p *peer) flush() {
	for p.open && p.credits > 0 && p.queue.len() > 0 {
		list := p.queue.next()
		if !p.start(list) {
			return
		}
	}
}

// mayCopy reports whether a payload of n bytes may be copied now, if copied bytes wait.
func mayCopy(copied, n int) bool { return copied == 0 || copied+n <= mostCopied }

// start starts the first message of the list. It returns false if the message has to wait for a tag, or until payloads
// that were copied are sent.
func (p *peer) start(list *fifo) bool {
	tx := list.list[list.head]
	m := protocol.Message{Type: protocol.Short, Header: tx.Header, Length: uint32(tx.Payload.Length)}
	switch {
	case tx.Sink.Length > 0 && tx.Header.Type == lnet.MsgGet && p.getOpt && tx.To.NID == tx.Header.Dest:
		if tag, ok := p.gets.Allocate(); ok {
			m.Type, m.Tag, m.Length = protocol.GetOpt, tag, uint32(tx.Sink.Length)
		} else { // the answer will be a REPLY
			p.d.count.noTag.Add(1)
		}
	case tx.Payload.Length > p.shortMax:
		if !mayCopy(p.copied, tx.Payload.Length) {
			return false
		}
		tag, ok := p.puts.Allocate()
		if !ok {
			p.d.count.noTag.Add(1)
			return false
		}
		m.Type, m.Tag = protocol.LargePut, tag
	}
	list.pop()
	p.credits--
	p.sent++
	p.unanswered = true
	o := p.d.newOutgoing(p, tx)
	p.add(o)
	if err := o.transmit(&m); err != nil {
		p.fault(err)
	}
	return true
}

// transmit makes the requests of the message, that of the short message last: its payload must have been sent, and the
// receive of its answer be posted, when it arrives.
func (o *outgoing) transmit(m *protocol.Message) error {
	p, d, tx := o.p, o.p.d, o.tx
	switch m.Type {
	case protocol.LargePut:
		d.count.larges.Add(1)
		b := d.memory.large(tx.Payload.Length)
		tx.Payload.CopyTo(b)
		r := request{owner: o, part: payload, comm: p.at.Comm, p: p, buf: b}
		if err := d.send(r, int(m.Tag), b[:tx.Payload.Length]); err != nil {
			p.puts.Release(m.Tag)
			return err
		}
		o.tag = m.Tag
		o.requests++
		p.copied += tx.Payload.Length
		o.copied = tx.Payload.Length
	case protocol.GetOpt:
		d.count.gets.Add(1)
		if err := o.receiveAnswer(m.Tag); err != nil {
			p.gets.Release(m.Tag)
			return err
		}
	default:
		d.count.shorts.Add(1)
	}
	b := d.memory.shortBuffer()
	head := len(p.number(m, b))
	if m.Type == protocol.Short {
		head += tx.Payload.CopyTo(b[head:])
	}
	if err := p.transmit(request{owner: o, part: message, buf: b}, b[:head]); err != nil {
		o.stray = true
		return err
	}
	o.requests++
	return nil
}

// receiveAnswer posts the receive of the answer to an optimized GET (MPI-23): into the sink if that is one piece.
func (o *outgoing) receiveAnswer(tag uint32) error {
	b := piece(o.tx.Sink)
	if b == nil {
		o.copy = o.p.d.memory.large(o.tx.Sink.Length)
		b = o.copy[:o.tx.Sink.Length]
	}
	r := request{owner: o, part: answer, comm: o.p.at.Comm, p: o.p, buf: o.copy}
	id, err := o.p.d.receive(r, o.p.at.Rank, int(tag), b)
	if err != nil {
		return err
	}
	o.get, o.receiving, o.tag, o.receive = true, true, tag, id
	o.requests++
	return nil
}

// piece returns the memory of v if it is in one piece, and otherwise nil.
func piece(v memory.Vector) []byte {
	at := v.Offset
	for k := range v.Segments {
		b := v.Segments[k].Bytes
		if at < len(b) {
			if at+v.Length > len(b) {
				return nil
			}
			return b[at : at+v.Length : at+v.Length]
		}
		at -= len(b)
	}
	return nil
}

// completed implements owner.
func (o *outgoing) completed(r *request, done *boundary.Done) {
	o.requests--
	p := o.p
	o.stray = o.stray || done.Err != nil
	switch r.part {
	case answer:
		o.answered(done)
	case payload:
		p.copied -= o.copied
	default: // the rest concerns all
	}
	if o.requests == 0 && o.tag != 0 && !o.get && !o.stray {
		p.puts.Release(o.tag)
		o.tag = 0
	}
	switch {
	case o.tx == nil:
	case done.Err != nil:
		p.fault(done.Err)
	case o.requests == 0 && !o.get:
		o.finish(nil)
	}
	o.recycle()
	p.flush() // perhaps with the tag
}

// answered handles the completion of the receive of an answer.
func (o *outgoing) answered(done *boundary.Done) {
	p := o.p
	o.receiving = false
	if received := done.Err == nil && !done.Cancelled; received || o.refused {
		p.gets.Release(o.tag)
	} else {
		p.abandoned = append(p.abandoned, o.tag)
	}
	switch {
	case o.tx == nil:
	case o.err != nil:
		o.finish(failure("send", p.id.NID, o.status, o.err))
	case done.Err == nil:
		if o.copy != nil {
			p.d.count.copied.Add(1)
			o.tx.Sink.CopyFrom(o.copy[:done.Length])
		}
		o.tx.Replied, o.tx.ReplyLength = true, done.Length
		p.hear()
		o.finish(nil)
	}
}

// finish completes the message.
func (o *outgoing) finish(err error) {
	tx := o.tx
	o.tx = nil
	delete(o.p.d.lingerers(), transfer(o))
	if k := o.index; k < len(o.p.active) && o.p.active[k] == transfer(o) {
		o.p.remove(o)
	}
	tx.Done.Sent(tx, err)
}

// nak handles a NAK of the answer to the GET with a tag. It returns false if no GET has the tag.
func (p *peer) nak(tag uint32) bool {
	for _, t := range p.active {
		if o, ok := t.(*outgoing); ok && o.receiving && o.tag == tag {
			o.refused, o.err, o.status = true, errRefused, lnd.StatusRemoteError
			p.d.cancel(o.receive)
			return true
		}
	}
	return false
}

// slot implements transfer.
func (o *outgoing) slot() *int { return &o.index }

// end implements transfer. A receive into the sink has to be cancelled before the message is complete.
func (o *outgoing) end(e *ending) {
	o.index = 0
	switch {
	case o.tx == nil:
	case o.receiving:
		o.err, o.status = e.err, e.seen
		o.p.d.lingerers()[o] = struct{}{}
		o.p.d.cancel(o.receive)
	default:
		o.finish(failure("send", o.p.id.NID, e.seen, e.err))
	}
	o.recycle()
}

// abandon implements transfer.
func (o *outgoing) abandon() {
	if o.tx != nil {
		o.finish(failure("send", o.p.id.NID, o.status, o.err))
	}
}

func (d *Driver) newOutgoing(p *peer, tx *lnd.Tx) (o *outgoing) {
	if n := len(d.unused.outgoing); n > 0 {
		o, d.unused.outgoing = d.unused.outgoing[n-1], d.unused.outgoing[:n-1]
	} else {
		o = new(outgoing)
	}
	*o = outgoing{p: p, tx: tx}
	return o
}

// recycle releases the record if the message is complete and MPI has no request of it.
func (o *outgoing) recycle() {
	if o.tx == nil && o.requests == 0 && o.p != nil {
		d := o.p.d
		o.p = nil
		d.unused.outgoing = append(d.unused.outgoing, o)
	}
}
