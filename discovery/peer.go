package discovery

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// peer is the Machine's data about another node (discovery 2.1).
type peer struct {
	id      PeerID
	primary lnet.NID
	nis     []*ni // grouped by net (discovery 2.2)
	state   State
	// seq is the last sequence number that the peer sent. ackedSeq is the last local sequence
	// number that the peer acknowledged.
	seq, ackedSeq uint32
	// newestSeq and newestDigest are the sequence number and hash of the data with the
	// highest number that has arrived since the last ping was sent. They are valid if
	// hasNewest is set (decisions 19).
	newestSeq    uint32
	newestDigest uint64
	hasNewest    bool
	learnedAt    uint64 // Machine.clock when data of the peer last arrived; 0 if none did
	failures     uint8  // number of consecutive failed rounds; see ping
	tries        uint8  // number of pauses before retries that were begun, limited by retries
	dirty        bool
	queued       bool
	pushUnacked  bool  // the last push did not reach the peer
	retriesEnded bool  // a failed round is no longer retried; see endRetries
	dataSize     int32 // size of the largest ping info received
	lockTime     time.Duration
	routes       int   // number of routes through the peer
	work         *work // nil while nothing is under way

	// The following are values of Machine.clock. doubtAt is when messages about the peer last
	// contradicted each other, or a message was lost; 0 if the peer is not in doubt.
	// restartedAt is when the peer's current incarnation was detected. ackedPushAt is when
	// the push that set ackedSeq was sent.
	doubtAt, restartedAt, ackedPushAt uint64

	prev, next   *peer // all peers
	qprev, qnext *peer // the queue
	due          time.Duration
	pauseEnd     time.Duration // end of the last pause before a retry
	timerIndex   int           // index in timers plus 1; 0 if not in timers
	view         *View
}

// ni is the Machine's record of one NID of a peer.
type ni struct {
	nid    lnet.NID
	peer   *peer
	routes int // number of routes that lead through this NID
}

// work is the part of a peer's state that is needed only while a round, ping or push is in
// progress, or something waits.
type work struct {
	ping, push RequestID
	pingedAt   uint64 // Machine.clock when the last ping was sent
	pushed     uint32 // sequence number of the push under way
	pushedAt   uint64 // Machine.clock when that push was sent
	pushVoid   bool   // the push under way went to an earlier incarnation of the peer
	// source is the local NID that received the last reply, and destination the peer's NID
	// that sent it. The next push uses them. The zero NID means any.
	source, destination lnet.NID
	// mergeInto is a NID of the peer into which this peer must be merged (discovery 7.6), or
	// zero.
	mergeInto        lnet.NID
	net              lnet.Net // net of the router check in progress
	alsoPing         lnet.NID // NID to ping alternately with the primary NID, unless zero
	data             *Content
	merge            *merge
	pingErr, pushErr error
	repingCount      int
	parked           []Key
	waiters          []waiter
}

func (p *peer) startWork() *work {
	if p.work == nil {
		p.work = &work{}
	}
	return p.work
}

// dropIdleWork removes p.work if nothing is in progress or waits.
func (p *peer) dropIdleWork() {
	w := p.work
	if w == nil || p.state.Has(Discovering|PingFailed|PushFailed) || w.ping != 0 || w.push != 0 || w.data != nil || w.merge != nil || len(w.parked)+len(w.waiters) > 0 ||
		!w.mergeInto.IsZero() || !w.alsoPing.IsZero() || w.net != 0 || !w.destination.IsZero() && p.state.Has(MultiRail) {
		return
	}
	p.work = nil
}

func (p *peer) has(nid lnet.NID) bool { return p.find(nid) != nil }

func (p *peer) find(nid lnet.NID) *ni {
	for _, i := range p.nis {
		if i.nid == nid {
			return i
		}
	}
	return nil
}

// onNet returns the first NID of the peer on a net, or the zero NID.
func (p *peer) onNet(n lnet.Net) lnet.NID {
	for _, i := range p.nis {
		if i.nid.Net() == n {
			return i.nid
		}
	}
	return lnet.NID{}
}

// insert adds an NI to the peer, after the others on the same net.
func (p *peer) insert(i *ni) {
	at := len(p.nis)
	for k := len(p.nis) - 1; k >= 0; k-- {
		if p.nis[k].nid.Net() == i.nid.Net() {
			at = k + 1
			break
		}
	}
	p.nis = slices.Insert(p.nis, at, i)
	i.peer = p
	p.routes += i.routes
}

func (p *peer) remove(i *ni) {
	if k := slices.Index(p.nis, i); k >= 0 {
		p.nis = slices.Delete(p.nis, k, k+1)
		p.routes -= i.routes
	}
}

// promote changes the order of p.nis: it moves the NID to the front, followed by the
// others on its net (discovery 7.1). It reports whether the order has changed.
func (p *peer) promote(nid lnet.NID) bool {
	if len(p.nis) == 0 || p.nis[0].nid == nid || !p.has(nid) {
		return false
	}
	rank := func(i *ni) int {
		switch {
		case i.nid == nid:
			return 0
		case i.nid.Net() == nid.Net():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(p.nis, func(a, b *ni) int { return rank(a) - rank(b) })
	return true
}

// create creates a peer for a NID that belongs to no peer. The NID becomes its primary
// NID.
func (m *Machine) create(nid lnet.NID) *peer {
	m.lastPeer++
	p := &peer{id: m.lastPeer, primary: nid}
	p.prev = m.last
	if m.last != nil {
		m.last.next = p
	} else {
		m.first = p
	}
	m.last = p
	m.count++
	m.attach(p, nid)
	return p
}

// attach adds a NID that belongs to no peer to p.
func (m *Machine) attach(p *peer, nid lnet.NID) {
	i := &ni{nid: nid}
	m.nis[nid] = i
	p.insert(i)
	m.emit(Attach{NID: nid, Peer: p.id})
	m.changedNIDs(p)
}

// destroy removes a peer. Its parked messages are released and will be sent again. Callers
// that wait for it now wait for the peer that has the NID afterwards.
func (m *Machine) destroy(p *peer) {
	m.cancelPing(p)
	m.cancelPush(p)
	m.queue.remove(p)
	m.timers.remove(p)
	if w := p.work; w != nil {
		if m.stopped {
			m.enqueueRelease(w.parked, ErrCanceled)
		} else {
			m.enqueueRelease(w.parked, nil)
		}
		m.orphanWaiters = append(m.orphanWaiters, w.waiters...)
		p.work = nil
	}
	for _, i := range p.nis {
		delete(m.nis, i.nid)
		m.emit(Detach{NID: i.nid, Peer: p.id})
	}
	p.nis, p.routes = nil, 0
	for _, s := range m.sweeps {
		if s.next == p {
			s.next = p.next
		}
	}
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		m.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		m.last = p.prev
	}
	m.count--
	p.state = p.state&^(Discovering|DataPresent|ForcePing|ForcePush) | MarkDeleted
	p.view = nil
	m.emit(Gone{m.publish(p)})
}

// publish returns the current View of a peer. It creates a new one if the peer has
// changed.
func (m *Machine) publish(p *peer) *View {
	v, untold := p.view, p.pushUnacked && !p.retriesEnded
	if v != nil && v.NIDs != nil && v.Primary == p.primary && v.State == p.state && v.Seq == p.seq &&
		v.AckedSeq == p.ackedSeq && v.PushUnacked == untold && v.RetriesEnded == p.retriesEnded && v.Gateway == (p.routes > 0) {
		return v
	}
	next := &View{ID: p.id, Primary: p.primary, State: p.state, Seq: p.seq, AckedSeq: p.ackedSeq, PushUnacked: untold, RetriesEnded: p.retriesEnded, Gateway: p.routes > 0}
	if v != nil && v.NIDs != nil {
		next.NIDs = v.NIDs
	} else if len(p.nis) > 0 {
		next.NIDs = make([]lnet.NID, len(p.nis))
		for k, i := range p.nis {
			next.NIDs[k] = i.nid
		}
	}
	p.view = next
	return next
}

// changed marks the View of a peer as outdated, so that endEvent publishes a new one.
func (m *Machine) changed(p *peer) {
	if !p.dirty {
		p.dirty = true
		m.changedPeers = append(m.changedPeers, p)
	}
}

// changedNIDs is like changed, but also marks the list of NIDs, or their order, as
// changed.
func (m *Machine) changedNIDs(p *peer) {
	p.view = nil
	m.changed(p)
}

func (m *Machine) set(p *peer, f State) {
	if p.state&f != f {
		p.state |= f
		m.changed(p)
	}
}

func (m *Machine) clear(p *peer, f State) {
	if p.state&f != 0 {
		p.state &^= f
		m.changed(p)
	}
}

func (m *Machine) upToDate(p *peer) bool { return p.state.upToDate(m.local, p.ackedSeq) }

func (m *Machine) disabled(p *peer) bool { return p.state.disabled(m.local) }

// becomeMultiRail makes a peer Multi-Rail. It also makes the node discard the preferred
// NIs that were set because of arriving messages (discovery 2.5).
func (m *Machine) becomeMultiRail(p *peer) {
	if !p.state.Has(MultiRail) {
		m.set(p, MultiRail)
		m.emit(ForgetPreferred{p.id})
	}
}
