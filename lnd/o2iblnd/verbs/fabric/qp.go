package fabric

import (
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

type qpState uint8

const (
	qpInit  qpState = iota // not connected; receives can be posted
	qpReady                // connected
	qpError                // failed; everything that is posted is flushed
	qpLost                 // failed without further completions
	qpDestroyed
)

// qp is a queue pair, which is one end of a connection. The process uses it through the methods of its id.
// Fabric.mu guards it.
type qp struct {
	f      *Fabric
	i      *id
	d      *opened
	cq     *cq
	number uint32
	size   verbs.QP
	state  qpState
	peer   *qp

	recvs                queue[verbs.Recv]
	sends                queue[*work]  // posted requests that have not completed, oldest first
	placed               int           // number of sends, the first ones, that only lack the acknowledgement
	arrived              int           // number of sends after these that have arrived at the peer
	sendsUsed, recvsUsed int           // slots in use
	unsignalled          int           // requests that have completed since the last completion was added to the queue
	lastArrival, lastAck time.Duration // times of the latest arrivals; later ones must not be earlier

	retries, rnrRetries uint8 // permitted numbers of retries
	tries, rnrTries     uint8 // numbers of retries so far
	waiting             bool  // the next retry is scheduled
	severed             bool  // the connection is broken: everything that is sent fails
	early               bool  // AsyncCommEst was delivered
}

// work is a posted request.
type work struct {
	verbs.Request
	pieces []verbs.Piece
	inline []byte
	taken  bool   // the payload was copied to inline
	size   uint32 // bytes of payload
}

func (i *id) CreateQP(size *verbs.QP) error {
	q, ok := size.CQ.(*cq)
	return i.call("create queue pair", func() error {
		p := i.ch.p
		switch {
		case !ok || i.qp != nil || i.port == nil || i.state == cmListening || i.state == cmResolving && !i.addrKnown:
			return syscall.EINVAL
		case q.closed || q.d.closed || q.d.p != p || q.d.hw != i.port.device:
			return syscall.EINVAL
		case size.Sends > q.d.attr.MaxWR || size.Recvs > q.d.attr.MaxWR || size.SendPieces > q.d.attr.MaxPieces || size.Inline > q.d.hw.inline:
			return syscall.EINVAL
		case q.d.hw.removed:
			return syscall.EIO
		case len(q.qps) >= q.d.attr.MaxQP:
			return syscall.ENOMEM
		}
		i.qp = &qp{f: i.f, i: i, d: q.d, cq: q, number: i.f.number(), size: *size}
		q.qps[i.qp] = struct{}{}
		q.d.qps++
		return nil
	})
}

// connect makes the queue pair ready to send and receive, unless it has already failed.
func (q *qp) connect(peer *qp, retries, rnrRetries uint8) {
	q.peer, q.retries, q.rnrRetries = peer, retries, rnrRetries
	if q.state == qpInit {
		q.state = qpReady
	}
}

func (i *id) Post(recvs []verbs.Recv, requests []verbs.Request, pieces []verbs.Piece) (nrecvs, nrequests int, err error) {
	i.f.lock()
	defer i.f.unlock()
	q := i.qp
	switch {
	case i.state == cmDestroyed:
		return 0, 0, verbs.ErrClosed
	case q == nil || !verbs.PiecesFit(requests, len(pieces)):
		return 0, 0, syscall.EINVAL
	}
	i.ch.p.posts.Add(1)
	for _, r := range recvs {
		if q.recvsUsed == q.size.Recvs {
			return nrecvs, 0, syscall.ENOMEM
		}
		q.recvsUsed++
		nrecvs++
		q.recvs.push(r) // after an error nothing removes it, so that it has no effect
	}
	for k := range requests {
		if err = q.post(&requests[k], pieces); err != nil {
			break
		}
		nrequests++
	}
	q.depart(nrequests)
	return nrecvs, nrequests, err
}

// post queues a request without sending it.
func (q *qp) post(r *verbs.Request, pieces []verbs.Piece) error {
	switch {
	case q.state == qpInit || int(r.Count) > q.size.SendPieces || r.Op > verbs.RDMAWrite:
		return syscall.EINVAL
	case q.sendsUsed == q.size.Sends:
		return syscall.ENOMEM
	}
	w := q.f.work(r, pieces[r.First:r.First+r.Count])
	if r.Flags&verbs.FlagInline != 0 {
		if int(w.size) > q.size.Inline {
			q.f.release(w)
			return syscall.EINVAL
		}
		w.inline = append(w.inline[:0], make([]byte, w.size)...)
		w.taken = q.d.gather(w, w.inline) == nil
	}
	q.sendsUsed++
	if q.state == qpError {
		q.finish(w, verbs.Flushed)
		return nil
	}
	q.sends.push(w)
	return nil
}

// depart sends the n requests that were queued last.
func (q *qp) depart(n int) {
	if q.state != qpReady || n == 0 {
		return
	}
	l := q.f.net.Link(q.i.way())
	if l.Latency == 0 && l.Jitter == 0 && q.arrived == q.sends.n-q.placed-n {
		q.arrived += n
		q.deliver()
		return
	}
	for range n {
		now := q.f.now()
		q.lastArrival = max(q.lastArrival, now+l.delay(q.i.random))
		q.f.after(q.lastArrival-now, func() {
			if q.state == qpReady {
				q.arrived++
				q.deliver()
			}
		})
	}
}

// deliver processes requests that have arrived at the peer, in order. It stops at a request that has to be
// retransmitted or has failed.
func (q *qp) deliver() {
	for q.state == qpReady && q.arrived > 0 && !q.waiting {
		w := *q.sends.at(q.placed)
		l := q.f.net.Link(q.i.way())
		switch {
		case q.severed || l.Break > 0 && q.i.random.Float64() < l.Break:
			if !q.severed {
				q.f.faults.breaks.Add(1)
				q.severed = true
				q.peer.severed = true
			}
			q.err(w, verbs.RetryExceeded)
			return
		case l.Loss > 0 && q.i.random.Float64() < l.Loss:
			q.f.faults.losses.Add(1)
			q.again()
			return
		case q.peer.state != qpReady || !q.f.net.Open(q.i.way()):
			q.f.faults.stalls.Add(1)
			q.again()
			return
		case l.RNR > 0 && w.Op == verbs.Send && q.i.random.Float64() < l.RNR:
			q.notReady(w)
			return
		case l.Fail > 0 && q.i.random.Float64() < l.Fail:
			q.f.faults.failures.Add(1)
			q.peer.fail()
			q.err(w, verbs.RemoteOperation)
			return
		}
		if !q.place(w) || q.state != qpReady {
			return
		}
		q.tries, q.rnrTries = 0, 0
		q.arrived--
		q.placed++
		q.acknowledge()
	}
}

// again retransmits the oldest request that is not delivered after AckTimeout. If the retries are used up, the
// connection fails instead.
func (q *qp) again() {
	q.waiting = true
	q.f.after(q.f.config.AckTimeout, func() {
		q.waiting = false
		if q.state != qpReady {
			return
		}
		if q.tries >= q.retries {
			q.f.faults.retryExceeded.Add(1)
			q.err(*q.sends.at(q.placed), verbs.RetryExceeded)
			return
		}
		q.tries++
		q.f.faults.retries.Add(1)
		q.deliver()
	})
}

// notReady retransmits the request w, for which the peer has posted no receive. If the retries are used up, the
// connection fails instead.
func (q *qp) notReady(w *work) {
	q.f.faults.rnr.Add(1)
	if q.rnrTries >= q.rnrRetries && q.rnrRetries < rnrForever {
		q.f.faults.rnrExceeded.Add(1)
		q.err(w, verbs.RNRExceeded)
		return
	}
	if q.rnrRetries < rnrForever {
		q.rnrTries++
	}
	q.waiting = true
	q.f.after(rnrTimer, func() {
		q.waiting = false
		q.deliver()
	})
}

// place delivers the request w: it copies the payload and completes the peer's receive. If that is impossible,
// it processes the failure and returns false.
func (q *qp) place(w *work) bool {
	p := q.peer
	if w.Op == verbs.RDMAWrite {
		to, ok := p.d.find(w.Remote, w.size, w.RKey^remoteKey, verbs.AccessRemoteWrite)
		switch {
		case !ok && w.size > 0:
			p.d.deny(verbs.Piece{Addr: w.Remote, Len: w.size, LKey: w.RKey ^ remoteKey}, verbs.AccessRemoteWrite)
			p.d.push(verbs.AsyncEvent{Kind: verbs.AsyncQPAccessError, QPN: p.number})
			p.fail()
			q.err(w, verbs.RemoteAccess)
		case !q.gather(w, to):
			q.err(w, verbs.LocalProtection)
			ok = false
		}
		return ok || w.size == 0
	}
	if p.recvs.n == 0 {
		q.notReady(w)
		return false
	}
	r := *p.recvs.at(0)
	to, ok := p.d.find(r.Addr, r.Len, r.LKey, verbs.AccessLocalWrite)
	switch {
	case !ok:
		p.d.deny(verbs.Piece{Addr: r.Addr, Len: r.Len, LKey: r.LKey}, verbs.AccessLocalWrite)
		p.take(verbs.Completion{WRID: r.WRID, Status: verbs.LocalProtection})
		p.fail()
		q.err(w, verbs.RemoteOperation)
		return false
	case w.size > r.Len:
		p.take(verbs.Completion{WRID: r.WRID, Status: verbs.LocalLengthError})
		p.fail()
		q.err(w, verbs.RemoteInvalid)
		return false
	case !q.gather(w, to[:w.size]):
		q.err(w, verbs.LocalProtection)
		return false
	}
	p.heard()
	p.take(verbs.Completion{WRID: r.WRID, Op: verbs.CompletedRecv, Bytes: w.size})
	return true
}

// heard is called when a message arrives. If the connection is not established yet, it delivers the event
// AsyncCommEst.
func (q *qp) heard() {
	if q.i.state != cmReplySent {
		return
	}
	q.f.faults.early.Add(1)
	if !q.early {
		q.early = true
		q.d.push(verbs.AsyncEvent{Kind: verbs.AsyncCommEst, QPN: q.number})
	}
}

// take removes the oldest receive and adds the completion c for it.
func (q *qp) take(c verbs.Completion) {
	q.recvs.pop()
	q.complete(c, 0, 1)
}

// gather copies the payload of w into the slice to. It returns false, and reports the access, if a key does not
// allow it.
func (q *qp) gather(w *work, to []byte) bool {
	if w.taken {
		copy(to, w.inline)
		return true
	}
	if s := q.d.gather(w, to); s != nil {
		q.d.deny(*s, verbs.AccessRead)
		return false
	}
	return true
}

// gather copies the payload of w into the slice to. If a key does not allow the access to a piece, it copies
// nothing and returns the piece.
func (d *opened) gather(w *work, to []byte) *verbs.Piece {
	for k, s := range w.pieces {
		if _, ok := d.find(s.Addr, s.Len, s.LKey, verbs.AccessRead); !ok {
			return &w.pieces[k]
		}
	}
	n := 0
	for _, s := range w.pieces {
		b, _ := d.find(s.Addr, s.Len, s.LKey, verbs.AccessRead)
		n += copy(to[n:], b)
	}
	return nil
}

// acknowledge makes the acknowledgement of a delivered request arrive, possibly after a delay. The oldest
// request then completes.
func (q *qp) acknowledge() {
	w := q.i.way().Back()
	l := q.f.net.Link(w)
	if l.Latency == 0 && l.Jitter == 0 && q.placed == 1 && q.f.net.Open(w) {
		q.pop(verbs.Success)
		return
	}
	now := q.f.now()
	q.lastAck = max(q.lastAck, now+l.delay(q.i.random))
	q.f.after(q.lastAck-now, func() { q.acknowledged(w, q.retries) })
}

// acknowledged completes the oldest request if its acknowledgement has arrived on the way w. Otherwise it tries
// again after AckTimeout, at most tries times.
func (q *qp) acknowledged(w network.Way, tries uint8) {
	switch {
	case q.state != qpReady:
	case q.f.net.Open(w):
		q.pop(verbs.Success)
	case tries == 0:
		q.f.faults.retryExceeded.Add(1)
		q.err(*q.sends.at(0), verbs.RetryExceeded)
	default:
		q.f.faults.stalls.Add(1)
		q.f.after(q.f.config.AckTimeout, func() { q.acknowledged(w, tries-1) })
	}
}

// pop removes the oldest request and completes it with the status s.
func (q *qp) pop(s verbs.Status) {
	w := q.sends.pop()
	if q.placed > 0 {
		q.placed--
	}
	q.finish(w, s)
}

// finish completes a request. If it succeeded and is unsignalled, it adds no completion to the queue. Its slot
// becomes free together with that of the next request that does.
func (q *qp) finish(w *work, s verbs.Status) {
	q.unsignalled++
	if s != verbs.Success || w.Flags&verbs.FlagSignalled != 0 {
		c := verbs.Completion{WRID: w.WRID, Status: s}
		if w.Op == verbs.RDMAWrite {
			c.Op = verbs.CompletedWrite
		}
		n := q.unsignalled
		q.unsignalled = 0
		q.complete(c, n, 0)
	}
	q.f.release(w)
}

func (q *qp) complete(c verbs.Completion, sends, recvs int) {
	c.QPN = q.number
	q.cq.push(entry{c, q, sends, recvs})
}

// err makes the connection fail at the request w with the status s. Requests before w succeed, because their
// acknowledgements would have arrived before the failure.
func (q *qp) err(w *work, s verbs.Status) {
	if s == verbs.RetryExceeded && !q.f.net.Open(q.i.way().Back()) {
		w = *q.sends.at(0)
	}
	for q.state == qpReady && q.sends.n > 0 && *q.sends.at(0) != w {
		q.pop(verbs.Success)
	}
	if q.state == qpReady {
		q.pop(s)
	}
	q.fail()
}

// fail puts the queue pair into the error state: everything that is posted completes as flushed.
func (q *qp) fail() {
	if q.state != qpReady && q.state != qpInit {
		return
	}
	q.state = qpError
	for q.sends.n > 0 && q.state == qpError {
		q.pop(verbs.Flushed)
	}
	for q.recvs.n > 0 && q.state == qpError {
		q.take(verbs.Completion{WRID: q.recvs.at(0).WRID, Status: verbs.Flushed})
	}
}

// sever breaks the connection: all requests that are in progress, or posted later, fail.
func (q *qp) sever() {
	q.severed = true
	if q.state == qpReady && q.sends.n > 0 {
		q.err(*q.sends.at(0), verbs.RetryExceeded)
	}
}

// lose makes the queue pair fail without any completions.
func (q *qp) lose() {
	if q.state != qpDestroyed && q.state != qpLost {
		q.state = qpLost
		q.drop()
		q.d.push(verbs.AsyncEvent{Kind: verbs.AsyncQPFatal, QPN: q.number})
	}
}

func (q *qp) destroy() {
	if q.state == qpDestroyed {
		return
	}
	q.state = qpDestroyed
	q.drop()
	delete(q.cq.qps, q)
	q.d.qps--
}

// drop discards everything that is posted.
func (q *qp) drop() {
	for k := range q.sends.n {
		q.f.release(*q.sends.at(k))
	}
	q.sends, q.recvs, q.placed, q.arrived = queue[*work]{}, queue[verbs.Recv]{}, 0, 0
}

// work returns a copy of a request and its pieces. It reuses released records.
func (f *Fabric) work(r *verbs.Request, pieces []verbs.Piece) *work {
	var w *work
	if k := len(f.spare) - 1; k >= 0 {
		w, f.spare = f.spare[k], f.spare[:k]
	} else {
		w = new(work)
	}
	w.Request = *r
	w.pieces = append(w.pieces[:0], pieces...)
	w.taken, w.size = false, 0
	for _, s := range pieces {
		w.size += s.Len
	}
	return w
}

func (f *Fabric) release(w *work) { f.spare = append(f.spare, w) }
