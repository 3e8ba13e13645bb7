package discovery

import (
	"iter"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Limits of one call of Step.
const (
	mergeChunk   = 64  // NIDs merged from one peer's ping info
	sweepChunk   = 64  // peers visited by a sweep, or by timers
	releaseChunk = 256 // messages released
)

// Limits of repetitions.
const (
	// repingsMax is the maximum number of pings in one round after the first (decisions 19,
	// quirk of discovery 6.4).
	repingsMax = 4
	// A failed round is retried after firstRetry, 2*firstRetry and so on, retries times in
	// total. The count starts again after a successful round, a Discover, a NoteAlive, or a
	// change of the local ping info. A message begins a round without resetting the count.
	firstRetry = 2 * time.Second
	retries    = 8
)

// Config is the configuration of a Machine.
type Config struct {
	Local
	// Nets are the nets on which this node has NIs.
	Nets []lnet.Net
	// ResponseTimeout is the time after which a ping or push fails if no result was reported,
	// in case that the node's response trackers miss it. 0 means no limit.
	ResponseTimeout time.Duration
	// Full, if not nil, reports whether ping info must not add further NIDs to the peer with
	// this primary NID, because the limit on NIDs is reached. The Machine calls it during its
	// own calls, so Full must not use the Machine.
	Full func(primary lnet.NID) bool
}

// Machine is the state machine of discovery. Only one goroutine may use it at a time. The
// times passed to it must not decrease. The zero Machine is not usable; call New.
type Machine struct {
	local   Local
	nets    map[lnet.Net]struct{}
	timeout time.Duration
	full    func(primary lnet.NID) bool
	stopped bool
	now     time.Duration
	clock   uint64 // orders events: incremented when a ping or push is sent, data about a peer arrives, or a doubt or restart is found

	nis         map[lnet.NID]*ni
	first, last *peer // all peers, by age
	count       int
	lastPeer    PeerID
	lastRequest RequestID
	requests    map[RequestID]*peer

	queue         queue
	timers        timers
	sweeps        []*sweep
	released      []Release // to be returned by Actions
	orphanWaiters []waiter  // waiters of peers that were removed
	changedPeers  []*peer
	gatewayInfos  []GatewayInfo
	wakes         []Wake
	actions       []Action
	freeActions   []Action
	pushRoom      int
	figures       Figures // except for Queue
}

// New returns a Machine without peers.
func New(c Config) *Machine {
	m := &Machine{
		local: c.Local, timeout: c.ResponseTimeout, full: c.Full,
		nis: map[lnet.NID]*ni{}, requests: map[RequestID]*peer{}, pushRoom: lnet.PingBufferMin,
	}
	if m.full == nil {
		m.full = func(lnet.NID) bool { return false }
	}
	m.setNets(c.Nets)
	return m
}

func (m *Machine) setNets(nets []lnet.Net) {
	m.nets = make(map[lnet.Net]struct{}, len(nets))
	for _, n := range nets {
		m.nets[n] = struct{}{}
	}
}

func (m *Machine) isLocal(n lnet.Net) bool {
	_, ok := m.nets[n]
	return ok
}

// beginEvent and endEvent enclose the handling of each event. endEvent emits the actions
// that follow from the changes.
func (m *Machine) beginEvent(now time.Duration) { m.now = max(m.now, now) }

func (m *Machine) endEvent() {
	for len(m.orphanWaiters) > 0 {
		w := m.orphanWaiters[0]
		m.orphanWaiters = m.orphanWaiters[1:]
		m.moveWaiter(w)
	}
	m.orphanWaiters = nil
	for _, p := range m.changedPeers {
		p.dirty = false
		if !p.state.Has(MarkDeleted) {
			m.emit(ViewChanged{m.publish(p)})
		}
	}
	clear(m.changedPeers)
	m.changedPeers = m.changedPeers[:0]
	for _, g := range m.gatewayInfos { // routes depend on the Views
		m.emit(g)
	}
	m.gatewayInfos = m.gatewayInfos[:0]
	for _, w := range m.wakes { // the callers use the Views
		m.emit(w)
	}
	m.wakes = m.wakes[:0]
}

func (m *Machine) emit(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) warn(p *peer, text string, nid lnet.NID, err error) {
	l := Log{Warn: true, Peer: p.primary, Text: text, Err: err}
	if !nid.IsZero() {
		l.NIDs = []lnet.NID{nid}
	}
	m.emit(l)
}

// Actions returns the actions that the caller must perform, in order, and removes them
// from the Machine. The slice remains valid during the next call of Actions, but not
// during the one after it.
func (m *Machine) Actions() []Action {
	a := m.actions
	clear(m.freeActions)
	m.actions, m.freeActions = m.freeActions[:0], a
	return a
}

// HasWork reports whether Step has work to do now.
func (m *Machine) HasWork() bool {
	return m.queue.first != nil || len(m.released) > 0 || len(m.sweeps) > 0
}

// Due returns the time at which Step will have work to do if no other event arrives
// before. It returns false if no timer is running.
func (m *Machine) Due() (time.Duration, bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return m.timers[0].due, true
}

// Step does a bounded amount of pending work: the next step for one peer of the queue,
// some peers of a sweep, some messages to release, and timers that are due.
func (m *Machine) Step(now time.Duration) {
	m.beginEvent(now)
	m.runTimers()
	m.release()
	m.sweep()
	if p := m.queue.pop(); p != nil {
		m.run(p)
	}
	m.endEvent()
}

// Local returns the current Local of this node.
func (m *Machine) Local() Local { return m.local }

// Find returns the View of the peer that has the NID, or nil if no peer has it.
func (m *Machine) Find(nid lnet.NID) *View {
	if i := m.nis[nid]; i != nil {
		return m.publish(i.peer)
	}
	return nil
}

// Peers yields the View of each peer, oldest first. The Machine must not be used during the
// iteration.
func (m *Machine) Peers() iter.Seq[*View] { return m.PeersAfter(0, lnet.NID{}) }

// PeersAfter is like Peers, but yields only peers that are younger than the peer with the
// given ID, which may have been removed. A caller can read the peers in parts: if each
// part begins after the last peer of the previous part, no peer is read twice, and no peer
// that remains is missed. had is a NID of the peer with this ID; if it still has the NID,
// the iteration starts there without a search.
func (m *Machine) PeersAfter(id PeerID, had lnet.NID) iter.Seq[*View] {
	return func(yield func(*View) bool) {
		p := m.first
		if i := m.nis[had]; i != nil && i.peer.id == id {
			p = i.peer.next
		}
		for ; p != nil; p = p.next {
			if p.id > id && !yield(m.publish(p)) {
				return
			}
		}
	}
}

// Len returns the number of peers.
func (m *Machine) Len() int { return m.count }

// FindOrCreate creates a peer for a NID to which a message goes or from which one came,
// unless a peer has the NID already (discovery 2.4). It does nothing if no peer can have
// the NID.
func (m *Machine) FindOrCreate(now time.Duration, nid lnet.NID) {
	m.beginEvent(now)
	m.findOrCreate(nid)
	m.endEvent()
}

// findOrCreate returns the peer that has the NID, and creates it if necessary. It returns
// nil if no peer can have the NID, or if it would have to create one and discovery is
// stopped.
func (m *Machine) findOrCreate(nid lnet.NID) *peer {
	if i := m.nis[nid]; i != nil {
		return i.peer
	}
	if m.stopped || !usable(nid) && !nid.IsLoopback() {
		return nil
	}
	p := m.create(nid)
	if nid.IsLoopback() {
		p.state |= NoDiscovery
	}
	return p
}
