package node

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// ni is one of the node's interfaces: what a driver reports to.
type ni struct {
	selection.NI
	node     *Node
	net      lnet.Net
	iface    lnd.Interface // set before open
	tunables lnd.Tunables
	loopback bool

	link atomic.Uint32 // lnd.LinkState
	// downSince is when the link changed last, by the node's clock.
	downSince atomic.Int64
	stalls    atomic.Bool   // some peer NI may not answer its messages
	closing   atomic.Bool   // set by RemoveNI: no arrival may wait any longer
	stored    atomic.Uint32 // a DownReason, which link says the rest of; see down

	tx     credits
	health health
	stats  niStats
	// lastPing is the second of the node's clock at which another node's ping
	// came last, kept on routers (lnet-core 9.2).
	lastPing atomic.Int64

	statusMu sync.Mutex // held while stored changes

	closeOnce sync.Once
	closed    chan struct{} // the driver is done with it; closeErr is set
	closeErr  error

	// Upcalls may come before Driver.Open has returned the interface; these
	// arrivals wait until it is known.
	open    atomic.Bool
	earlyMu sync.Mutex // guards early and lost, and the step of open
	early   []*lnd.Rx
	lost    []*lnd.Rx // of early: withdrawn meanwhile
}

// NIInfo describes an NI as `lnetctl net show -v 4` does.
type NIInfo struct {
	NID lnet.NID
	Net lnet.Net
	// Device is empty for 0@lo.
	Device string
	// Status is what ping info says of the NI, Down why it is down.
	Status lnet.NIStatus
	Down   DownReason
	Link   lnd.LinkState
	// LinkCause says why the link is down, if the driver knows.
	LinkCause string
	// Tunables, Options and the LND timeout are those in force; zero for
	// 0@lo. Options are of the type that the driver documents.
	Tunables   lnd.Tunables
	Options    any
	LNDTimeout time.Duration
	Traffic    Traffic
	Detail     Detail
	Health     Health
	Policy     PolicyInfo
	// DeviceCPT is where the device is, selection.UnknownCPT if nobody knows.
	DeviceCPT int
	// Credits bound the messages under way on the NI; zero for 0@lo.
	Credits CreditInfo
	// Refusals are callers that the driver turned away, since the NI is there.
	Refusals lnd.RefusalCounts
	// CallFailures are calls of the driver that brought no connection; nil if it
	// makes none that it knows of (lnd.Caller).
	CallFailures *lnd.CallFailureCounts
	// Driver are the driver's counters.
	Driver []lnd.Counter
}

// holdBack keeps an arrival that came before the interface was known.
func (i *ni) holdBack(rx *lnd.Rx) bool {
	i.earlyMu.Lock()
	defer i.earlyMu.Unlock()
	if i.open.Load() {
		return false
	}
	i.early = append(i.early, rx)
	return true
}

// setOpen makes the interface known to upcalls and takes what came early.
func (i *ni) setOpen() {
	i.earlyMu.Lock()
	early := i.early
	lost := i.lost
	i.early, i.lost = nil, nil
	i.open.Store(true)
	i.earlyMu.Unlock()
	for _, rx := range early {
		if slices.Contains(lost, rx) {
			i.drop(rx, DropConnection)
			continue
		}
		if err := i.receive(rx); err != nil {
			// The upcall has returned: the connection is closed from here.
			i.node.log.Tell(boundedlog.Line{Level: slog.LevelWarn, Text: "protocol error", Of: boundedlog.AboutPeer(rx.From.NID)},
				slog.Any("ni", i.NID), slog.Any("err", err))
			from := rx.From.NID
			i.iface.Receive(rx, lnd.Placement{})
			i.iface.Disconnect(from)
		}
	}
}

// newNI makes an NI that no driver has opened yet.
func newNI(n *Node, net lnet.Net) *ni {
	i := &ni{node: n, net: net, closed: make(chan struct{})}
	i.link.Store(linkUnknown)
	i.health.value = &i.Health
	return i
}

// Withdrawn implements lnd.Upper: the message is given up if it still waits.
func (i *ni) Withdrawn(rx *lnd.Rx) {
	i.earlyMu.Lock()
	if slices.Contains(i.early, rx) {
		i.lost = append(i.lost, rx)
	}
	i.earlyMu.Unlock()
	i.node.dropWaiting(DropConnection, func(m *message) bool { return m.arrival.rx == rx })
}

// PeerDown implements lnd.Upper.
func (i *ni) PeerDown(d lnd.PeerDown) {
	if !i.open.Load() { // AddNI is still writing what is read here
		return
	}
	i.node.log.Debug("peer down", "ni", i.NID, "peer", d.Peer, "lastAlive", d.LastAlive, "err", d.Err)
	if p := i.node.peers.find(d.Peer); p != nil {
		i.node.noteFailure(p, failureText(d.Err))
	}
	i.node.lost(i, d.Peer)
}

// ConnectionsLost implements lnd.Upper.
func (i *ni) ConnectionsLost(nid lnet.NID) {
	i.node.lostHops.add(nid)
	i.node.wakeMonitor()
}

// PeerRestarted implements lnd.Upper: what the two knew of each other is void.
func (i *ni) PeerRestarted(nid lnet.NID) {
	if !i.open.Load() { // AddNI is still writing what is read here
		return
	}
	i.node.log.Tell(boundedlog.Line{Level: slog.LevelInfo, Text: "peer restarted", Of: boundedlog.AboutPeer(nid)}, slog.Any("net", i.net))
	i.node.lifeOver(i, nid)
	i.node.doubtOthers(i, nid)
	i.node.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.Restarted(now, nid) })
}

// LNDTimeout implements lnd.Upper. A message's deadline follows from the driver's
// answer to it (message.due), so that both change together.
func (i *ni) LNDTimeout() time.Duration { return i.node.parameters.Load().LNDTimeout() }

// Vouched implements lnd.Upper.
func (i *ni) Vouched(nid lnet.NID) bool {
	p := i.node.peers.find(nid)
	return p != nil && p.vouched()
}

// linkUnknown is the link state before the driver has told.
const linkUnknown = 0xff

// LinkChanged implements lnd.Upper: the ping info is rebuilt, with a new
// sequence number, if the NI is in it. The upcall may come while AddNI still
// works on the NI, which is then not in the topology.
func (i *ni) LinkChanged(s lnd.LinkState) {
	if i.link.Swap(uint32(s)) == uint32(s) {
		return
	}
	n := i.node
	i.downSince.Store(n.now())
	i.Fatal.Store(fatal(s))
	n.infoMu.Lock()
	present := slices.Contains(n.topology.Load().nis, i)
	if present {
		n.rebuildInfo()
	}
	n.infoMu.Unlock()
	switch {
	case !present:
	case fatal(s):
		n.reroute(i, nil)
		n.lostHops.addNet(i.net) // the news itself may wait behind what is there
		n.wakeMonitor()
	default:
		n.tryAgain(i)
	}
	if !present {
		return
	}
	level := slog.LevelInfo
	if fatal(s) {
		level = slog.LevelWarn
	}
	n.log.Tell(boundedlog.Line{Level: level, Text: "link changed", Of: boundedlog.AboutNI(i.NID)}, slog.Any("link", s), slog.String("cause", i.linkCause()))
}

// linkCause is why the driver says that the link is down; empty: it is up, or the driver
// does not know.
func (i *ni) linkCause() string {
	if e, ok := i.iface.(lnd.LinkExplainer); ok && i.link.Load() == uint32(lnd.LinkDown) {
		return e.LinkCause()
	}
	return ""
}

func (i *ni) info() NIInfo {
	s := NIInfo{
		NID: i.NID, Net: i.net, Device: i.iface.Device(),
		Status: i.status(), Down: i.down(), Link: lnd.LinkState(i.link.Load()), LinkCause: i.linkCause(),
		Options: i.iface.Options(), LNDTimeout: i.iface.Timeout(), Traffic: i.stats.traffic(),
		Detail:    i.stats.detail(),
		Health:    i.node.healthInfo(&i.health, &i.stats.trafficStats),
		Policy:    PolicyInfo{NetPriority: selection.NoPriority, NIDPriority: i.Priority()},
		DeviceCPT: i.CPT,
	}
	if net := i.node.topology.Load().view.Local.Net(i.net); net != nil {
		s.Policy.NetPriority = net.Priority()
	}
	s.Health.Fatal = s.Link == lnd.LinkDown
	if !i.loopback {
		s.Tunables = i.tunables
		s.Credits = i.tx.info()
		s.Refusals = i.iface.Refusals()
		if c, ok := i.iface.(lnd.Caller); ok {
			s.CallFailures = new(c.CallFailures())
		}
		s.Driver = i.iface.Counters()
	}
	return s
}
