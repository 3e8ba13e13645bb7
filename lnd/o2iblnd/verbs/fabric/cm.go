package fabric

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// cmState is the state of an ID in the CM (connection manager).
type cmState uint8

const (
	cmIdle cmState = iota
	cmListening
	cmResolving
	cmAddrResolved
	cmRouteResolved
	cmRequestSent     // Connect was called; the peer has not answered
	cmRequestReceived // the process has not answered the request
	cmReplySent       // Accept was called; the peer has not confirmed that the answer arrived
	cmEstablished
	cmDisconnectSent
	cmDisconnectReceived
	cmDisconnected
	cmFailed // the attempt has failed
	cmDestroyed
)

// id implements verbs.ID. A message of the CM to the peer is a function that Fabric.carry calls when the
// message arrives.
type id struct {
	verbs.Owned
	ch            *channel
	f             *Fabric
	serial        uint64
	local, remote netip.AddrPort

	// Guarded by Fabric.mu.
	port        *Port
	state       cmState
	random      *rand.Rand
	qp          *qp
	peer        *id          // the other end; nil until it is known
	request     *connRequest // the request that was sent or received
	reply       *verbs.Event // the event that the peer gets after Accept
	epoch       int          // number of calls of insist
	backlog     int          // of a listener: the limit of unharvested
	unharvested int          // of a listener: requests that the process has not fetched
	endReported bool         // the end of the connection was reported
	addrKnown   bool         // the peer's address is resolved
}

// connRequest is a connection request, including its retransmissions.
type connRequest struct {
	from  *id
	taken *id // the receiver's ID for the request; nil before it is created and after it is destroyed
	event verbs.Event
}

func (i *id) Local() netip.AddrPort  { return i.local }
func (i *id) Remote() netip.AddrPort { return i.remote }

// way returns the way from the ID's address to its peer's.
func (i *id) way() network.Way { return network.Way{From: i.local.Addr(), To: i.remote.Addr()} }

// push delivers an event to the process, unless the ID is destroyed.
func (i *id) push(e verbs.Event) {
	if i.state == cmDestroyed || i.ch.closed {
		return
	}
	e.ID = i
	i.ch.queue = append(i.ch.queue, e)
	i.ch.ready.Signal()
}

// call runs f with the fabric's lock held, for a method that the process has called. It returns verbs.ErrClosed
// if the ID is destroyed. what describes the method in errors.
func (i *id) call(what string, f func() error) error {
	i.ch.p.others.Add(1)
	i.f.lock()
	defer i.f.unlock()
	err := verbs.ErrClosed
	if i.state != cmDestroyed {
		err = f()
	}
	if err != nil {
		return verbs.Wrap(err, "%s, %s - %s", what, i.local, i.remote)
	}
	return nil
}

func (i *id) QPN() uint32 {
	i.f.lock()
	defer i.f.unlock()
	if i.qp == nil {
		return 0
	}
	return i.qp.number
}

// resolve reports whether the peer can be reached: by the event good and the state next after a round trip, or
// by the event bad after timeout.
func (i *id) resolve(good, bad verbs.EventKind, next cmState, timeout time.Duration) {
	w := i.way()
	l := i.f.net.Link(w)
	look := func(last bool) bool {
		if i.state != cmResolving {
			return true
		}
		found := i.f.net.Open(w) && i.f.net.Open(w.Back())
		if found {
			i.state, i.addrKnown = next, true
			i.push(verbs.Event{Kind: good})
		} else if last {
			i.state = cmFailed
			i.f.faults.unreachable.Add(1)
			i.push(verbs.Event{Kind: bad, Status: -int32(syscall.ETIMEDOUT)})
		}
		return found
	}
	i.f.after(2*l.delay(i.random), func() {
		if !look(false) {
			i.f.after(max(timeout, 1), func() { look(true) })
		}
	})
}

func (i *id) ResolveRoute(timeout time.Duration) error {
	return i.call("resolve route", func() error {
		if i.state != cmAddrResolved {
			return syscall.EINVAL
		}
		i.state = cmResolving
		i.resolve(verbs.EventRouteResolved, verbs.EventRouteError, cmRouteResolved, timeout)
		return nil
	})
}

// padded returns an event with the private data b, padded with zeros to the size that the transport carries
// (o2iblnd 3.5).
func padded(kind verbs.EventKind, status int32, b []byte, size int) verbs.Event {
	e := verbs.Event{Kind: kind, Status: status, PrivateLen: size}
	copy(e.Private[:size], b)
	return e
}

func (i *id) Connect(p verbs.ConnParam) error {
	return i.call("connect", func() error {
		if i.state != cmRouteResolved || i.qp == nil || len(p.Private) > verbs.MaxConnectPrivate {
			return syscall.EINVAL
		}
		e := padded(verbs.EventConnectRequest, 0, p.Private, verbs.MaxConnectPrivate)
		e.Retries, e.RNRRetries = p.Retries, p.RNRRetries
		e.Local, e.Remote = i.remote, i.local
		i.request = &connRequest{from: i, event: e}
		i.qp.retries = p.Retries
		i.state = cmRequestSent
		i.insist(func() { i.sendRequest() }, func() {
			i.state = cmFailed
			i.f.faults.unreachable.Add(1)
			i.push(verbs.Event{Kind: verbs.EventUnreachable, Status: -int32(syscall.ETIMEDOUT)})
		})
		return nil
	})
}

// insist calls send, and again after each cmTimeout until the state has changed. After cmRetries repetitions it
// calls giveUp.
func (i *id) insist(send, giveUp func()) {
	i.epoch++
	epoch, state, tries := i.epoch, i.state, 0
	var try func()
	try = func() {
		if i.epoch != epoch || i.state != state {
			return
		}
		if tries > cmRetries {
			giveUp()
			return
		}
		if tries++; tries > 1 {
			i.f.faults.retries.Add(1)
		}
		send()
		i.f.after(cmTimeout, try)
	}
	try()
}

func (i *id) sendRequest() {
	r := i.request
	to := i.remote
	arrive := func() {
		if i.state == cmRequestSent && i.request == r && i.f.net.Open(i.way()) {
			i.f.arriveRequest(to, r)
		}
	}
	i.f.carry(i.way(), i.random, func() {
		if !i.f.hold(i.way(), arrive) {
			arrive()
		}
	})
}

// arriveRequest delivers a connection request to the listener at the address to, or rejects it.
func (f *Fabric) arriveRequest(to netip.AddrPort, r *connRequest) {
	port := f.port(to.Addr())
	w := r.from.way()
	listener := port.device.host.listeners[to]
	switch {
	case listener == nil:
		f.reject(w.Back(), r.from, nil, verbs.RejectNoListener, nil)
		return
	case f.net.Link(w).Stale > 0 && r.from.random.Float64() < f.net.Link(w).Stale:
		f.faults.stale.Add(1)
		f.reject(w.Back(), r.from, nil, verbs.RejectStale, nil)
		return
	}
	if i := r.taken; i != nil { // a retransmission
		if i.state == cmReplySent {
			i.sendReply()
		}
		return
	}
	if listener.unharvested >= max(listener.backlog, 1) {
		f.reject(w.Back(), r.from, nil, verbs.RejectConsumer, nil)
		return
	}
	i := listener.ch.add()
	i.local, i.remote, i.port, i.state, i.request, i.peer = to, r.from.local, port, cmRequestReceived, r, r.from
	i.random = f.net.Random(w, f.net.Attempts(w)<<1|1)
	r.taken = i
	e := r.event
	e.Listener = listener
	listener.unharvested++
	i.push(e)
}

// rejectDelay is the time from the flush of a rejected queue pair to the event that reports the reject.
const rejectDelay = 10 * time.Microsecond

// reject sends a reject of a connection request, on the way w, to the ID to. from is the ID that rejects, or
// nil if the CM of the peer does.
func (f *Fabric) reject(w network.Way, to, from *id, reason int32, private []byte) {
	f.faults.rejects.Add(1)
	random := to.random
	if from != nil {
		random = from.random
	}
	e := padded(verbs.EventRejected, reason, private, verbs.MaxRejectPrivate)
	f.carry(w, random, func() {
		switch {
		case to.state == cmRequestReceived: // like a kernel, report nothing; Accept will fail
			to.state = cmFailed
			return
		case to.state == cmRequestSent:
		case from != nil && to.peer == from && (to.state == cmReplySent || to.state == cmEstablished):
		default:
			return
		}
		to.state = cmFailed
		to.endReported = true
		// Like librdmacm, put the queue pair into the error state before the event is delivered. So posted work
		// is flushed, and the process may see these completions before the event.
		if to.qp != nil {
			to.qp.fail()
		}
		f.after(rejectDelay, func() { to.push(e) })
	})
}

func (i *id) Reject(private []byte) error {
	return i.call("reject", func() error {
		if i.state != cmRequestReceived || len(private) > verbs.MaxRejectPrivate {
			return syscall.EINVAL
		}
		i.state = cmFailed
		i.f.reject(i.way(), i.peer, i, verbs.RejectConsumer, private)
		return nil
	})
}

func (i *id) Accept(p verbs.ConnParam) error {
	return i.call("accept", func() error {
		if i.state != cmRequestReceived || i.qp == nil || len(p.Private) > verbs.MaxAcceptPrivate {
			return syscall.EINVAL
		}
		e := padded(verbs.EventEstablished, 0, p.Private, verbs.MaxAcceptPrivate)
		e.RNRRetries = p.RNRRetries
		i.reply = &e
		i.state = cmReplySent
		i.qp.connect(i.peer.qp, i.request.event.Retries, i.request.event.RNRRetries)
		i.insist(i.sendReply, func() {
			i.state = cmFailed
			i.f.faults.unreachable.Add(1)
			i.push(verbs.Event{Kind: verbs.EventUnreachable, Status: -int32(syscall.ETIMEDOUT)})
		})
		return nil
	})
}

func (i *id) sendReply() {
	active := i.peer
	i.f.carry(i.way(), i.random, func() {
		switch {
		case active.state == cmRequestSent && active.request == i.request:
			active.peer = i
			active.qp.connect(i.qp, active.request.event.Retries, i.reply.RNRRetries)
			active.state = cmEstablished
			active.push(*i.reply)
		case active.state == cmEstablished && active.peer == i: // a retransmission
		default:
			return
		}
		active.f.carry(active.way(), active.random, i.ready)
	})
}

// ready processes the confirmation that the peer has received the answer.
func (i *id) ready() {
	if i.state != cmReplySent {
		return
	}
	i.state = cmEstablished
	i.push(verbs.Event{Kind: verbs.EventEstablished})
}

func (i *id) Established() error {
	return i.call("notify", func() error {
		switch i.state {
		case cmReplySent:
			i.ready()
		case cmEstablished:
		default:
			return syscall.EINVAL
		}
		return nil
	})
}

func (i *id) Disconnect() error {
	return i.call("disconnect", func() error {
		if i.reply == nil && (i.request == nil || i.state == cmRequestReceived) {
			return syscall.EINVAL // neither Connect nor Accept was called
		}
		i.qp.fail()
		switch i.state {
		case cmEstablished:
			i.state = cmDisconnectSent
			i.insist(i.sendDisconnect, func() { i.disconnected(-int32(syscall.ETIMEDOUT)) })
		case cmDisconnectReceived:
			i.state = cmDisconnected
			i.sendGone()
		}
		return nil
	})
}

func (i *id) sendDisconnect() {
	peer := i.peer
	i.f.carry(i.way(), i.random, func() {
		if peer.peer != i {
			return
		}
		switch peer.state {
		case cmEstablished, cmReplySent:
			peer.state = cmDisconnectReceived
			peer.reportEnd(0)
		case cmDisconnectSent:
			peer.disconnected(0)
			peer.sendGone()
		case cmDisconnected, cmDestroyed, cmFailed:
			peer.sendGone()
		}
	})
}

// sendGone answers the peer's Disconnect: this end has ended too.
func (i *id) sendGone() {
	peer := i.peer
	i.f.carry(i.way(), i.random, func() {
		if peer.state == cmDisconnectSent {
			peer.disconnected(0)
		}
	})
}

// disconnected records and reports that both ends have ended.
func (i *id) disconnected(status int32) {
	i.state = cmDisconnected
	i.reportEnd(status)
}

// reportEnd reports the end of the connection to the process, once.
func (i *id) reportEnd(status int32) {
	if !i.endReported {
		i.endReported = true
		i.push(verbs.Event{Kind: verbs.EventDisconnected, Status: status})
	}
}

func (i *id) Fail() error {
	return i.call("fail", func() error {
		if i.qp == nil {
			return syscall.EINVAL
		}
		i.qp.fail()
		return nil
	})
}

func (i *id) Destroy() {
	i.ch.p.others.Add(1)
	i.f.lock()
	defer i.f.unlock()
	i.destroy()
}

// destroy destroys the ID. It notifies the peer by a message, which may be lost.
func (i *id) destroy() {
	switch i.state {
	case cmRequestSent:
		i.f.withdraw(i)
	case cmRequestReceived, cmReplySent:
		i.f.reject(i.way(), i.peer, i, verbs.RejectConsumer, nil)
	case cmEstablished:
		i.sendDisconnect()
	case cmDisconnectReceived:
		i.sendGone()
	}
	i.vanish()
}

// withdraw notifies the receiver of i's connection request that i no longer waits for the answer.
func (f *Fabric) withdraw(i *id) {
	if to := i.request.taken; to != nil {
		f.reject(i.way(), to, i, verbs.RejectTimeout, nil)
	}
}

// vanish destroys the ID without notifying the peer.
func (i *id) vanish() {
	if i.state == cmDestroyed {
		return
	}
	h := i.ch.p.host
	if i.state == cmListening {
		delete(h.listeners, i.local)
		for _, e := range slices.Clone(i.ch.queue) { // destroys requests that the process has not fetched
			if e.Listener == verbs.ID(i) {
				e.ID.(*id).destroy()
			}
		}
	}
	if i.request != nil && i.request.taken == i {
		i.request.taken = nil
	}
	i.state = cmDestroyed
	if i.qp != nil {
		i.qp.destroy()
	}
	delete(i.ch.ids, i)
	kept := i.ch.queue[:0]
	for _, e := range i.ch.queue {
		if e.ID != verbs.ID(i) {
			kept = append(kept, e)
		}
	}
	clear(i.ch.queue[len(kept):])
	i.ch.queue = kept
}
