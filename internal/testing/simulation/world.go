package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// callTimeout is the time limit for calls that configure, start or close something.
const callTimeout = 2 * time.Minute

// world is a running scenario: the networks, the members, and the checker's records.
type world struct {
	*scenario
	trace
	memory  *Memory
	verbose bool

	network *simlnd.Fabric
	rdma    *fabric.Fabric
	members []*member

	// mu guards the following fields, and the fields of other types that are marked as guarded by world.mu.
	// Handlers lock it, so it must not be held during a call of a node.
	mu          sync.Mutex
	ops         []*operation // by number, from 1
	byHandle    map[lnet.Handle][]*operation
	descriptors []*descriptor
	messages    []*message        // by number
	payloads    []*payload        // by number
	fetches     map[bufferKey]int // requested active receives
	served      map[bufferKey]int // completed active receives
	regions     []*region         // memory of buffers, released by finish
	result      Result
	stopped     bool // handlers must not start new operations

	failuresMu sync.Mutex // guards failures and result.Failures
	failures   int

	// later counts timers, pings and discoveries that have not ended.
	later sync.WaitGroup
}

// member is a host with a node, which may die and start again.
type member struct {
	w       *world
	index   int
	host    *simlnd.Host
	verbs   *fabric.Host
	devices []device   // by rail
	nids    []lnet.NID // by rail
	// configured is set if the node is configured with the NIDs of all other members.
	configured bool

	wall      wall
	startedAt time.Time // wall-clock time that determines the interface cookie of the current or last life

	// Guarded by world.mu.
	life  *life // nil while the node is down
	lives int
	// mode is the discovery mode. switched is set if the mode was ever changed. absent marks the rails on
	// which the member has no NI, apart from NIs that are removed for a while.
	mode     discovery.Mode
	switched bool
	absent   []bool
	// generation counts the MDs on portalSlots in all lives.
	generation uint32
	// addresses are the addresses of the latest transfer machines, by slot.
	addresses []transport.Address
}

// life is one node of a member, from its start to its end.
type life struct {
	member  *member
	number  int
	restart restartKind
	node    *node.Node
	driver  *socklnd.Driver
	// process and verbs are set if the member has RDMA.
	process *fabric.Process
	verbs   *o2iblnd.Driver
	// transport is nil if the member has no transfer machines.
	transport *transportLayer

	// Guarded by world.mu.
	cookie  uint64 // interface cookie of the node's handles; 0: not known yet
	ending  bool   // Close has been called
	closed  bool   // Close has returned
	slots   *descriptor
	present []bool // whether the node has an NI, by rail
	changes int    // number of NI changes
	cut     bool   // the node's last NI on some net was once removed
}

// newWorld creates the networks and starts the nodes.
func newWorld(s *scenario, o Options) *world {
	w := &world{
		scenario: s, memory: o.Memory, verbose: o.Verbose,
		trace:    trace{start: time.Now()},
		byHandle: map[lnet.Handle][]*operation{},
		fetches:  map[bufferKey]int{}, served: map[bufferKey]int{},
	}
	if w.memory == nil {
		w.memory = new(Memory)
	}
	w.addf("seed %d: %v", s.seed, s)
	rdma := s.verbs.fabric
	rdma.Report = func(err error) { w.violate("%v", err) }
	w.network, w.rdma = simlnd.New(s.fabric), fabric.New(rdma)
	for k := range s.nodes {
		w.members = append(w.members, w.newMember(k))
	}
	for _, m := range w.members {
		m.start(restartNew)
	}
	return w
}

func (w *world) newMember(k int) *member {
	m := &member{
		w: w, index: k, host: w.network.Host(fmt.Sprint("host", k)), verbs: w.rdma.Host(fmt.Sprint("host", k)),
		mode: w.modes[k], configured: w.configured[k], absent: slices.Clone(w.absent[k]),
		addresses: make([]transport.Address, len(w.machines.slots[k])),
	}
	m.wall.offset = time.Duration(k) * time.Hour
	for rail := range w.rails {
		a := netip.AddrFrom4([4]byte{10, byte(rail), 0, byte(k + 1)})
		if w.ipv6 && !w.isVerbs(rail) {
			a = netip.AddrFrom16([16]byte{0xfd, 14: byte(rail), 15: byte(k + 1)})
		}
		if w.isVerbs(rail) {
			m.devices = append(m.devices, &verbsDevice{m.verbs, m.verbs.AddDevice(a.String()), a.String()})
		} else {
			m.devices = append(m.devices, m.host.AddDevice(fmt.Sprint("eth", rail), a.String()))
		}
		m.nids = append(m.nids, lnet.NIDFromIP(w.net(rail), a))
	}
	return m
}

// net returns the net of a rail.
func (w *world) net(rail int) lnet.Net {
	if w.oneNet {
		rail = 0
	}
	if w.isVerbs(rail) {
		return lnet.MakeNet(lnet.TypeO2IB, uint16(rail))
	}
	return lnet.MakeNet(lnet.TypeTCP, uint16(rail))
}

func (m *member) String() string { return fmt.Sprint("node", m.index) }

func (l *life) String() string { return fmt.Sprintf("node%d.%d", l.member.index, l.number) }

// has reports whether the NID belongs to the member.
func (m *member) has(nid lnet.NID) bool {
	for _, n := range m.nids {
		if n == nid {
			return true
		}
	}
	return false
}

// current returns the member's life, or nil if it is down.
func (m *member) current() *life {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.life
}

// restartKind is what a new life has in common with the previous life of its member.
type restartKind uint8

const (
	restartNew             restartKind = iota // nothing
	restartSameCookie                         // the interface cookie
	restartSameIncarnation                    // the interface cookie and the incarnation of its NIs, so that peers cannot detect the restart
)

// start starts a new life of the member. It stops the member's wall clock while it does, so that cookie
// and incarnation are those that r demands.
func (m *member) start(r restartKind) {
	w := m.w
	if r == restartNew {
		m.startedAt = m.wall.now()
	}
	m.wall.freeze(m.startedAt)
	log := slog.New(slog.DiscardHandler)
	if w.verbose {
		log = w.logger(m.String())
	}
	c := w.driver()
	c.Wall = m.wall.now
	c.Logger = log
	d, err := simlnd.NewDriver(m.host, c)
	if err != nil {
		w.violate("%v: driver: %v", m, err)
		return
	}
	n, err := newNode(w.scenario, m.mode, m.isRouter(), m.wall.now, log)
	if err != nil {
		w.violate("%v: node: %v", m, err)
		return
	}
	w.mu.Lock()
	l := &life{member: m, number: m.lives, restart: r, node: n, driver: d, present: make([]bool, w.rails)}
	m.lives++
	w.mu.Unlock()
	v := w.verbsDriver()
	v.Wall, v.Logger = c.Wall, log
	if err := l.startVerbs(v); err != nil {
		w.violate("%v: driver of RDMA: %v", m, err)
		return
	}
	w.addf("%v starts, rebirth %d", l, r)
	if r == restartSameCookie {
		m.wall.freeze(time.Time{})
		m.wall.freeze(m.wall.now())
	}
	for rail, absent := range m.absent {
		if !absent {
			l.addNI(rail)
		}
	}
	m.wall.freeze(time.Time{})
	l.addPeers()
	l.addRoutes()
	l.postStanding()
	l.openTransport()
	w.mu.Lock()
	m.life = l
	w.mu.Unlock()
}

// addNI adds the NI of a rail.
func (l *life) addNI(rail int) {
	w := l.member.w
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	nid := l.member.nids[rail]
	if _, err := l.node.AddNI(ctx, l.driverFor(nid.Net()), lnd.Config{Net: nid.Net(), NID: nid, Options: w.options}); err != nil {
		w.violate("%v: add %v: %v", l, nid, err)
		return
	}
	w.mu.Lock()
	l.present[rail] = true
	l.changes++
	w.mu.Unlock()
}

// addPeers configures the NIDs of all other members on the node, if its member is a configured one.
func (l *life) addPeers() {
	w := l.member.w
	if !l.member.configured {
		return
	}
	for _, m := range w.members {
		if m != l.member {
			l.configure(m)
		}
	}
}

// configure configures the NIDs of member m as a peer of the node.
func (l *life) configure(m *member) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := l.node.Admin().ConfigurePeer(ctx, m.nids[0], m.nids[1:], discovery.ConfigureOptions{})
	if err != nil && l.running() && !l.cutOff() {
		l.member.w.violate("%v: configure peer %v: %v", l, m, err)
	}
}

// cutOff reports whether the node's last NI on a net was removed at some time.
func (l *life) cutOff() bool {
	l.member.w.mu.Lock()
	defer l.member.w.mu.Unlock()
	return l.cut
}

// removeNI removes the NI of a rail.
func (l *life) removeNI(rail int) {
	w := l.member.w
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	w.mu.Lock()
	l.present[rail] = false
	l.changes++
	left := false
	for k, present := range l.present {
		left = left || present && w.net(k) == w.net(rail)
	}
	l.cut = l.cut || !left
	w.mu.Unlock()
	if err := l.node.RemoveNI(ctx, l.member.nids[rail]); err != nil {
		w.violate("%v: remove %v: %v", l, l.member.nids[rail], err)
	}
}

// end closes the node of the member and checks that this succeeds in time. With crash, it first cuts all
// connections without a shutdown.
func (m *member) end(crash bool) {
	w := m.w
	w.mu.Lock()
	l := m.life
	m.life = nil
	w.mu.Unlock()
	if s := l.transport; s != nil && !crash && (m.index+l.number)%2 == 0 {
		s.stopAll()
	}
	w.mu.Lock()
	l.ending = true
	w.mu.Unlock()
	w.addf("%v ends, crash %t", l, crash)
	if crash {
		l.crash()
	}
	w.inspect(l)
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := l.node.Close(ctx); err != nil {
		w.violate("%v: close: %v", l, err)
	}
	if err := l.driver.Close(); err != nil {
		w.violate("%v: close driver: %v", l, err)
	}
	l.closeVerbs()
	if took := time.Since(began); took > closeWithin {
		w.violate("%v: close took %v", l, took)
	}
	if l.transport != nil {
		l.transport.close()
	}
	w.mu.Lock()
	l.closed = true
	w.result.Report.add(l.node.Admin().Counters())
	w.mu.Unlock()
	w.addf("%v has ended", l)
}

// closeWithin is the time limit for closing a node.
const closeWithin = 30 * time.Second

// after calls f in a new goroutine after d. drain waits until f has returned.
func (w *world) after(d time.Duration, f func()) {
	w.later.Add(1)
	time.AfterFunc(d, func() {
		defer w.later.Done()
		f()
	})
}

// since returns the time since the scenario began.
func (w *world) since() time.Duration { return time.Since(w.start) }

// wall is a member's wall clock. Faults make it jump, and start makes it stand still.
type wall struct {
	mu     sync.Mutex // guards the rest
	offset time.Duration
	frozen time.Time // zero: the clock runs
	last   int64     // the latest reading
	jumped bool      // the clock was set since the latest reading
	hits   uint64    // number of readings that showed a jump
}

// now returns the time. A running clock never returns the same microsecond twice, so that two lives do
// not get the same cookie or incarnation by chance.
func (c *wall) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jumped {
		c.jumped = false
		c.hits++
	}
	if !c.frozen.IsZero() {
		return c.frozen
	}
	t := time.Now().Add(c.offset)
	if t.UnixMicro() == c.last {
		c.offset += time.Microsecond
		t = t.Add(time.Microsecond)
	}
	c.last = t.UnixMicro()
	return t
}

// jump sets the clock forwards or backwards.
func (c *wall) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	c.jumped = true
}

// freeze stops the clock at t. The zero time makes it run again.
func (c *wall) freeze(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = t
}
