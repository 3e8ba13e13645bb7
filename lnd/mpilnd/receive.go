package mpilnd

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

var (
	errRefused = errors.New("the peer does not answer the GET")
	errCredits = errors.New("more messages than credits")
	errTag     = errors.New("no GET has the tag")
	errTooLong = errors.New("the answer is longer than the memory for it, or there is none")
)

// arrival is a short message that was received, and the rest of the message of the node that it announces.
type arrival struct {
	lnd.Rx
	msg      protocol.Message
	buf      []byte // memory with the short message; nil when it was released
	p        *peer
	index    int // in link.active
	requests int // not complete

	place     lnd.Placement
	placing   atomic.Bool // Receive was called
	isPlaced  bool        // the task of Receive has run
	withdrawn bool        // the upcall Withdrawn was made
	done      bool        // the message is complete
	lost      error       // why the link has ended

	posted bool   // the receive of the payload was posted
	direct bool   // it is into memory of the node
	id     uint64 // its ID
	ahead  []byte // memory of the driver with the payload; nil if it is received into that of the node
	full   bool   // the payload has arrived
	copied int    // length of the answer that was copied
}

// shortReceived handles a short message, or the end of a receive for one.
func (d *Driver) shortReceived(r *request, done *boundary.Done) {
	i := d.ni
	if i == nil || i.closed && done.Cancelled {
		return
	}
	if done.Err != nil {
		_ = d.report(done.Err)
		i.missing[r.comm]++ // posted again when the peers are watched
		return
	}
	if !i.closed {
		defer d.repost(r.comm)
	}
	p := d.peer(Place{r.comm, done.From})
	if done.Cancelled || p == nil {
		return
	}
	a := d.newArrival(p)
	a.buf, r.buf = r.buf, nil
	if err := a.msg.Decode(a.buf[:done.Length]); err != nil {
		a.recycle()
		p.violated(err)
		return
	}
	if a.msg.Sequence == protocol.Unordered {
		p.handle(a)
		return
	}
	p.order.Add(a.msg.From, a.msg.Sequence, a)
	for {
		switch a, stale, ok := p.order.Next(); {
		case !ok:
			return
		case stale:
			p.stale(&a.msg)
			a.recycle()
		default:
			p.handle(a)
		}
	}
}

// repost posts a receive for a short message in place of one that is complete.
func (d *Driver) repost(comm int) {
	if err := d.postShort(comm); err != nil {
		_ = d.report(err)
		d.ni.missing[comm]++
	}
}

// receive handles a message on the open link. It takes over a.
func (p *peer) receive(a *arrival) {
	m := &a.msg
	p.hear()
	p.credits += int(m.Credits)
	var err error
	switch m.Type {
	case protocol.Short, protocol.LargePut, protocol.GetOpt:
		p.arrive(a)
		p.flush()
		return
	case protocol.Nak:
		if !p.nak(m.Tag) {
			err = fmt.Errorf("%w %d", errTag, m.Tag)
		}
	case protocol.Probe:
		p.control(protocol.ProbeReply)
	default: // PROBE_REPLY and CREDIT have no other meaning
	}
	a.recycle()
	if err != nil {
		p.violated(err)
	}
	p.flush()
}

// arrive announces a message to the node.
func (p *peer) arrive(a *arrival) {
	m := &a.msg
	if p.held++; p.held > p.granted {
		p.discard(m)
		a.recycle()
		p.violated(errCredits)
		return
	}
	if m.Type == protocol.LargePut {
		p.receiveEarlier(m.Tag)
	}
	a.Header, a.From, a.RDMA, a.Driver = m.Header, p.id, m.Type == protocol.GetOpt, a
	p.add(a)
	if err := p.d.ni.config.Upper.Arrived(&a.Rx); err != nil {
		p.remove(a)
		p.discard(m)
		a.done = true
		a.recycle()
		p.violated(err)
	}
}

// receiveEarlier receives the payload of an earlier message with the same tag, which waits for its placement. The sender
// may use the tag again as soon as MPI has copied the payload, and MPI delivers payloads in order.
func (p *peer) receiveEarlier(tag uint32) {
	for _, t := range p.active {
		if a, ok := t.(*arrival); ok && a.msg.Type == protocol.LargePut && a.msg.Tag == tag && !a.posted {
			a.post(nil)
		}
	}
}

// post posts the receive of the payload: into b, or if that is nil into memory of the driver.
func (a *arrival) post(b []byte) {
	p, n := a.p, int(a.msg.Length)
	p.await()
	a.posted, a.direct = true, b != nil
	if b == nil {
		a.ahead = p.d.memory.large(n)
		b = a.ahead[:n]
	}
	var err error
	a.id, err = p.d.receive(request{owner: a, part: incoming, comm: p.at.Comm, p: p}, p.at.Rank, int(a.msg.Tag), b)
	if err != nil {
		p.abandoned = append(p.abandoned, a.msg.Tag)
		p.fault(err)
		return
	}
	a.requests++
}

// placed is called when the node has placed the message. It runs as a task.
func (a *arrival) placed() {
	a.isPlaced = true
	here := a.msg.Type == protocol.Short || a.full
	switch {
	case a.lost != nil && (a.withdrawn || !here):
		a.finish(a.lost)
	case a.msg.Type == protocol.Short:
		a.place.Memory.CopyFrom(a.msg.Payload)
		a.finish(nil)
	case a.msg.Type == protocol.GetOpt:
		a.reply()
	case a.full:
		a.copyOut()
	case !a.posted && a.place.Done != nil && a.place.Memory.Length == int(a.msg.Length):
		a.post(piece(a.place.Memory))
	case !a.posted:
		a.post(nil)
	}
}

// copyOut completes the message with the payload, which is in memory of the driver.
func (a *arrival) copyOut() {
	a.p.d.count.copied.Add(1)
	a.place.Memory.CopyFrom(a.ahead[:a.msg.Length])
	a.finish(nil)
}

// reply sends the answer to an optimized GET (MPI-23), or a NAK if the node has dropped the GET.
func (a *arrival) reply() {
	p, answerTo := a.p, a.place.Reply
	if a.place.Done == nil || answerTo.Length > int(a.msg.Length) {
		p.write(&protocol.Message{Type: protocol.Nak, Tag: a.msg.Tag})
		if a.p != nil && a.lost == nil { // the link has not ended with this message
			a.finish(failure("receive", p.id.NID, lnd.StatusLocalError, errTooLong))
		}
		return
	}
	if !mayCopy(p.answering, answerTo.Length) {
		p.answers = append(p.answers, a)
		return
	}
	a.answer()
}

// answer sends the answer to an optimized GET, from a copy.
func (a *arrival) answer() {
	p, answerTo := a.p, a.place.Reply
	p.await()
	b := p.d.memory.large(answerTo.Length)
	answerTo.CopyTo(b)
	r := request{owner: a, part: answer, comm: p.at.Comm, p: p, buf: b}
	if err := p.d.send(r, int(a.msg.Tag), b[:answerTo.Length]); err != nil {
		p.fault(err)
		return
	}
	a.requests++
	a.copied = answerTo.Length
	p.answering += a.copied
}

// answerMore sends answers that wait until copies are sent.
func (p *peer) answerMore() {
	for len(p.answers) > 0 && mayCopy(p.answering, p.answers[0].place.Reply.Length) {
		a := p.answers[0]
		p.answers = p.answers[1:]
		a.answer()
	}
}

// completed implements owner.
func (a *arrival) completed(r *request, done *boundary.Done) {
	a.requests--
	p := a.p
	switch {
	case r.part == answer:
		p.answering -= a.copied
	case done.Cancelled:
		p.discard(&a.msg)
	case done.Err != nil:
		p.abandoned = append(p.abandoned, a.msg.Tag)
	}
	ok := done.Err == nil && !done.Cancelled && (r.part == answer || done.Length == int(a.msg.Length))
	switch {
	case a.done, a.lost != nil && !a.isPlaced: // placed will complete it
	case a.lost != nil:
		a.finish(a.lost) // the receive into memory of the node was cancelled
	case done.Err != nil:
		p.fault(done.Err)
	case !ok:
		p.violated(errLength)
	case r.part == answer:
		a.finish(nil)
	case a.direct:
		p.hear()
		a.finish(nil)
	default:
		p.hear()
		if a.full = true; a.isPlaced {
			a.copyOut()
		}
	}
	if a.done {
		a.recycle()
	}
	if r.part == answer {
		p.answerMore()
	}
}

// finish completes the message, and returns its credit.
func (a *arrival) finish(err error) {
	p := a.p
	a.done = true
	delete(p.d.lingerers(), transfer(a))
	if a.lost == nil {
		p.remove(a)
		p.owed++
		p.touch()
	}
	if done := a.place.Done; done != nil {
		done.Received(&a.Rx, err)
	}
	a.recycle()
}

// slot implements transfer.
func (a *arrival) slot() *int { return &a.index }

// end implements transfer. The node is asked for a placement that it has not given yet.
func (a *arrival) end(e *ending) {
	p := a.p
	a.lost = failure("receive", p.id.NID, lnd.StatusNetworkTimeout, e.err)
	if !a.posted {
		a.posted = true
		p.discard(&a.msg)
	}
	switch {
	case !a.placing.Load():
		a.withdrawn = true
		p.d.ni.config.Upper.Withdrawn(&a.Rx)
	case !a.isPlaced: // the task will complete it
	case a.direct && a.requests > 0:
		p.d.lingerers()[a] = struct{}{}
		p.d.cancel(a.id)
	default:
		a.finish(a.lost)
	}
}

// abandon implements transfer.
func (a *arrival) abandon() {
	if !a.done {
		a.finish(a.lost)
	}
}

// lingerers returns the transfers that have to be complete before the interface ends. It is nil if no interface is open.
func (d *Driver) lingerers() map[transfer]struct{} {
	if d.ni == nil {
		return nil
	}
	return d.ni.lingerer
}

func (d *Driver) newArrival(p *peer) *arrival {
	n := len(d.unused.arrivals)
	if n == 0 {
		return &arrival{p: p}
	}
	a := d.unused.arrivals[n-1]
	d.unused.arrivals = d.unused.arrivals[:n-1]
	a.p = p
	return a
}

// recycle releases the memory of a message that was not announced or is complete, and the record when MPI has no
// request of it.
func (a *arrival) recycle() {
	if a.requests > 0 || a.p == nil {
		return
	}
	d := a.p.d
	for _, b := range [...][]byte{a.buf, a.ahead} {
		if b != nil {
			d.memory.release(b)
		}
	}
	*a = arrival{}
	d.unused.arrivals = append(d.unused.arrivals, a)
}
