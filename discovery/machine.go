package discovery

import (
	"iter"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Bounds on what one call does.
const (
	mergeChunk   = 64  // NIDs of one peer's data
	sweepChunk   = 64  // peers looked at
	releaseChunk = 256 // messages released
)

// What is done again, and how often.
const (
	// repingsMax bounds the pings of one round beyond the first (decisions
	// 19, quirk of discovery 6.4).
	repingsMax = 4
	// A failed round is tried again after retryFirst, 2*retryFirst, ... as often
	// as retries says. A round that ends well, a Discover, news of ours and a peer
	// that is Heard again start over; traffic does not, but begins a round itself.
	retryFirst = 2 * time.Second
	retries    = 8
)

// Config is what a Machine starts with.
type Config struct {
	Local
	// Nets are the nets that this node has NIs on.
	Nets []lnet.Net
	// ResponseTimeout bounds the wait for the end of a ping or push, in case
	// that the node's own trackers miss it; 0: it is not bounded here.
	ResponseTimeout time.Duration
	// Full, if set, says that there is no room for one more NID of the peer with a
	// primary NID: none is added on the word of the peer that claims it. It is called
	// while the Machine works, and must not use it.
	Full func(primary lnet.NID) bool
}

// Machine is discovery's state. One goroutine at a time may use it; times never
// go back. The zero Machine is not ready: use New.
type Machine struct {
	local   Local
	nets    map[lnet.Net]struct{}
	timeout time.Duration
	full    func(primary lnet.NID) bool
	stopped bool
	now     time.Duration
	order   uint64 // of the pings that left and the news that came

	nis         map[lnet.NID]*ni
	first, last *peer // all, by age
	count       int
	lastPeer    PeerID
	lastRequest RequestID
	requests    map[RequestID]*peer

	queue    queue
	timers   timers
	sweeps   []*sweep
	released []Release // to be handed out
	orphans  []waiter  // of peers that are gone
	dirty    []*peer
	heard    []GatewayInfo
	woken    []Wake
	actions  []Action
	spare    []Action
	pushRoom int
	figures  Figures // but for Queue
}

// New makes a Machine that knows no peer.
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

// begin and end are around each event. end publishes what has changed.
func (m *Machine) begin(now time.Duration) { m.now = max(m.now, now) }

func (m *Machine) end() {
	for len(m.orphans) > 0 {
		w := m.orphans[0]
		m.orphans = m.orphans[1:]
		m.rehome(w)
	}
	m.orphans = nil
	for _, p := range m.dirty {
		p.dirty = false
		if !p.state.Has(MarkDeleted) {
			m.act(ViewChanged{m.publish(p)})
		}
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
	for _, g := range m.heard { // routes go by the Views
		m.act(g)
	}
	m.heard = m.heard[:0]
	for _, w := range m.woken { // they look at the Views
		m.act(w)
	}
	m.woken = m.woken[:0]
}

func (m *Machine) act(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) warn(p *peer, text string, nid lnet.NID, err error) {
	l := Log{Warn: true, Peer: p.primary, Text: text, Err: err}
	if !nid.IsZero() {
		l.NIDs = []lnet.NID{nid}
	}
	m.act(l)
}

// Actions returns what is to be done, in order. The slice is valid until the
// second next call.
func (m *Machine) Actions() []Action {
	a := m.actions
	clear(m.spare)
	m.actions, m.spare = m.spare[:0], a
	return a
}

// Ready tells whether Step has work to do now.
func (m *Machine) Ready() bool {
	return m.queue.first != nil || len(m.released) > 0 || len(m.sweeps) > 0
}

// Due is when Step will have work to do, if nothing else happens; false: never.
func (m *Machine) Due() (time.Duration, bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return m.timers[0].due, true
}

// Step does a bounded piece of the work that waits: a peer of the queue, some
// peers of a sweep, some messages to be released, the timers that are due.
func (m *Machine) Step(now time.Duration) {
	m.begin(now)
	m.fire()
	m.release()
	m.sweep()
	if p := m.queue.pop(); p != nil {
		m.run(p)
	}
	m.end()
}

// Local is what this node is to its peers now.
func (m *Machine) Local() Local { return m.local }

// Find returns the View of the peer that has the NID, nil if none has.
func (m *Machine) Find(nid lnet.NID) *View {
	if i := m.nis[nid]; i != nil {
		return m.publish(i.peer)
	}
	return nil
}

// Peers yields the View of each peer, the oldest first. The Machine must not be
// used meanwhile.
func (m *Machine) Peers() iter.Seq[*View] { return m.PeersAfter(0, lnet.NID{}) }

// PeersAfter yields, as Peers does, the peers that are younger than the one with
// the ID, which need not be there any more: whoever reads a part at a time and
// goes on after the last one sees no peer twice and misses none that stays. If
// that one is there and has the NID had, it is found at once.
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

// Len is the number of peers.
func (m *Machine) Len() int { return m.count }

// Meet makes a peer of a NID that a message goes to or came from, unless it
// belongs to one (discovery 2.4). A NID that nobody can have is ignored.
func (m *Machine) Meet(now time.Duration, nid lnet.NID) {
	m.begin(now)
	m.findOrCreate(nid)
	m.end()
}

// findOrCreate returns the peer with the NID; nil: nobody can have it, or
// discovery is stopped.
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
