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

// ni is one of the node's NIs. It implements lnd.Upper, the interface that its driver
// calls.
type ni struct {
	selection.NI
	node     *Node
	net      lnet.Net
	iface    lnd.Interface // set before open
	tunables lnd.Tunables
	loopback bool

	link atomic.Uint32 // lnd.LinkState
	// downSince is when the link state last changed, by the node's clock. While the link is
	// down, it is when the link went down.
	downSince atomic.Int64
	stalls    atomic.Bool   // a peer NI may be stalled for messages from this NI
	closing   atomic.Bool   // the NI is being removed or the node is closing: arrivals must not wait any longer
	stored    atomic.Uint32 // the current DownReason except DownLink; see down

	tx     credits
	health health
	stats  niStats
	// lastPing is when a ping from another node last arrived, in seconds of the node's clock.
	// Only routers maintain it (lnet-core 9.2).
	lastPing atomic.Int64

	statusMu sync.Mutex // held while link or stored changes
	// statusSince is when status last changed, by the node's clock.
	statusSince atomic.Int64

	closeOnce sync.Once
	closed    chan struct{} // closed when the driver has closed the interface and closeErr is set
	closeErr  error

	// The driver may call ni before Driver.Open has returned the interface. Messages that
	// arrive then are kept in early until the interface is known and open is set.
	open    atomic.Bool
	earlyMu sync.Mutex // guards early and lost, and the change of open
	early   []*lnd.Rx
	lost    []*lnd.Rx // messages in early whose connection has ended
}

// NIInfo describes an NI, with the details of `lnetctl net show -v 4`.
type NIInfo struct {
	NID lnet.NID
	Net lnet.Net
	// Device is empty for 0@lo.
	Device string
	// Status is the NI's status in ping info. Down is the reason if Status is down.
	Status lnet.NIStatus
	Down   DownReason
	// Since is when the NI was added, or when Status last changed after that.
	Since time.Time
	Link  lnd.LinkState
	// LinkCause is the reason why the link is down, if the driver knows it.
	LinkCause string
	// Tunables, Options and LNDTimeout are the values in effect. They are zero for 0@lo.
	Tunables   lnd.Tunables
	Options    lnd.Values
	LNDTimeout time.Duration
	Traffic    Traffic
	Detail     Detail
	Health     Health
	Policy     PolicyInfo
	// DeviceCPT is the CPT of the device, or selection.UnknownCPT.
	DeviceCPT int
	// Credits limit the messages under way on the NI. They are zero for 0@lo.
	Credits CreditInfo
	// Refusals counts the incoming connections that the driver has rejected since the NI was
	// added.
	Refusals lnd.RefusalCounts
	// CallFailures counts the driver's failed attempts to connect. It is nil if the driver
	// does not count them (lnd.Caller).
	CallFailures *lnd.CallFailureCounts
	// Driver holds the driver's own counters.
	Driver []lnd.Counter
}

// deferArrival keeps rx until setOpen, because it arrived before the driver's Open has
// returned the interface. It returns false if the interface is already known; the caller
// then processes rx.
func (i *ni) deferArrival(rx *lnd.Rx) bool {
	i.earlyMu.Lock()
	defer i.earlyMu.Unlock()
	if i.open.Load() {
		return false
	}
	i.early = append(i.early, rx)
	return true
}

// setOpen makes the node accept upcalls for the NI, after the driver has opened the
// interface, and processes the messages that arrived before.
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
			// The driver's call of Arrived has returned without an error, so the driver will not
			// close the connection itself.
			i.node.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "protocol error; the connections with the peer are closed", Of: boundedlog.AboutPeer(rx.From.NID)},
				slog.Any("ni", i.NID), slog.Any("err", err))
			from := rx.From.NID
			i.iface.Receive(rx, lnd.Placement{})
			i.iface.Disconnect(from)
		}
	}
}

// newNI creates an NI whose interface is not open yet.
func newNI(n *Node, net lnet.Net) *ni {
	i := &ni{node: n, net: net, closed: make(chan struct{})}
	i.link.Store(linkUnknown)
	i.statusSince.Store(n.now())
	i.health.value = &i.Health
	return i
}

// Withdrawn implements lnd.Upper. It drops the message if the message still waits for its
// placement.
func (i *ni) Withdrawn(rx *lnd.Rx) {
	i.earlyMu.Lock()
	if slices.Contains(i.early, rx) {
		i.lost = append(i.lost, rx)
	}
	i.earlyMu.Unlock()
	i.node.dropWaiting(DropConnection, func(m *message) bool { return m.arrival.rx == rx })
}

// PeerDown implements lnd.Upper. It records the failure and the loss of the peer.
func (i *ni) PeerDown(d lnd.PeerDown) {
	if !i.open.Load() { // AddNI is still writing fields that are read here
		return
	}
	i.node.log.Debug("the driver lost its connections with a peer", "ni", i.NID, "peer", d.Peer, "last_alive", d.LastAlive, "err", d.Err)
	if p := i.node.peers.find(d.Peer); p != nil {
		i.node.noteFailure(p, failureText(d.Err))
	}
	i.node.noteLost(i, d.Peer)
}

// ConnectionsLost implements lnd.Upper. The monitor then ends LNet's own requests to the
// neighbour.
func (i *ni) ConnectionsLost(nid lnet.NID) {
	i.node.lostNeighbours.add(nid)
	i.node.wakeMonitor()
}

// PeerRestarted implements lnd.Upper. It ends requests to the previous incarnation, makes
// drivers probe the other connections to the peer, and notifies discovery.
func (i *ni) PeerRestarted(nid lnet.NID) {
	if !i.open.Load() { // AddNI is still writing fields that are read here
		return
	}
	i.node.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "peer restarted", Of: boundedlog.AboutPeer(nid)}, slog.Any("net", i.net))
	i.node.noteRestart(i, nid)
	i.node.probeOthers(i, nid)
	i.node.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.Restarted(now, nid) })
}

// LNDTimeout implements lnd.Upper. It returns the timeout that the node's parameters
// determine. A driver for which no timeout is configured uses it, and message.setDeadline
// uses the driver's timeout, so that both change together.
func (i *ni) LNDTimeout() time.Duration { return i.node.parameters.Load().LNDTimeout() }

// Vouched implements lnd.Upper. It reports whether the peer with nid is configured.
func (i *ni) Vouched(nid lnet.NID) bool {
	p := i.node.peers.find(nid)
	return p != nil && p.isConfigured()
}

// linkUnknown is the value of ni.link until the driver reports a state.
const linkUnknown = 0xff

// LinkChanged implements lnd.Upper. If the NI is part of the topology, LinkChanged
// publishes new ping info with a new sequence number, and reroutes or pings. An NI that
// AddNI is still adding is not part of it yet.
func (i *ni) LinkChanged(s lnd.LinkState) {
	if !i.setLink(s) {
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
		n.lostNeighbours.addNet(i.net) // the push itself may be queued behind messages there
		n.wakeMonitor()
	default:
		n.pingSoon(i)
	}
	if !present {
		return
	}
	level := slog.LevelInfo
	if fatal(s) {
		level = slog.LevelWarn
	}
	n.log.Report(boundedlog.Line{Level: level, Text: "link changed", Of: boundedlog.AboutNI(i.NID), Recovery: !fatal(s)}, slog.Any("link", s), slog.String("cause", i.linkCause()))
}

// linkCause returns the driver's reason why the link is down. It is empty if the link is
// up or the driver does not know the reason.
func (i *ni) linkCause() string {
	if e, ok := i.iface.(lnd.LinkExplainer); ok && i.link.Load() == uint32(lnd.LinkDown) {
		return e.LinkCause()
	}
	return ""
}

func (i *ni) info() NIInfo {
	s := NIInfo{
		NID: i.NID, Net: i.net, Device: i.iface.Device(),
		Status: i.status(), Down: i.down(), Since: i.node.start.Add(time.Duration(i.statusSince.Load() - 1)), Link: lnd.LinkState(i.link.Load()), LinkCause: i.linkCause(),
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
