package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/selection"
)

// plan is the decision about an outgoing message (selection 3): wait for discovery (park),
// take a path (d), stay in this node (loopback), or fail (err).
type plan struct {
	park *peerNI
	d    selection.Decision
	// target is the destination NID in the header.
	target   lnet.NID
	loopback bool
	err      error
	now      int64 // when the path was chosen, as Node.now; 0 if the clock was not read

	markUsed *peerNI // peer NI to mark as used, or nil
	want     *peerNI // peer NI to discover in the background, or nil
}

// hop returns the NID of the next hop. It is zero if no path was chosen.
func (p *plan) hop() lnet.NID {
	if p.d.Next == nil {
		return lnet.NID{}
	}
	return p.d.Next.NID
}

// sendAnswer sends m, an ACK or REPLY, to the NID from which the request came.
func (n *Node) sendAnswer(m *message, to lnet.NID) {
	p := n.plan(m, to)
	p.now = n.second.Load() * int64(time.Second) // at most a second late, which saves reading the clock
	n.execute(m, &p)
}

// plan decides how the message m for target is sent. If needed, it creates the peer NI of
// target. It changes nothing else; execute carries the plan out.
func (n *Node) plan(m *message, target lnet.NID) (p plan) {
	if target.IsLoopback() && (m.arrival.from == nil || m.passage.forward) {
		p.target, p.loopback = target, true
		return p
	}
	if target.IsZero() || target.IsAny() {
		p.err = fmt.Errorf("%s is not the NID of a node: %w", target, ErrInvalid)
		return p
	}
	t := n.topology.Load()
	r := selection.Request{
		Source: m.out.source, Reserved: m.out.reserved, Recovery: m.out.recovery, DiscoveryNet: m.out.over, CPT: n.payloadCPT(m, t),
	}
	dest, err := n.destination(m, target, &r, t)
	if err != nil {
		p.err = fmt.Errorf("%s: %w", target, err)
		return p
	}
	if m.countsAsUse(dest, t) {
		p.markUsed = dest
	}
	if m.discoversTarget(target) && dest.view().MustWait(t.local) {
		if !m.passage.forward || n.mayWaitForDiscovery(m) {
			p.park = dest
			return p
		}
		if !dest.mentioned.Load() {
			p.want = dest
		}
	}
	if p.d, p.err = t.view.Choose(&r); p.err != nil {
		p.err = pathError(p.err)
		return p
	}
	p.target = p.d.Final.NID
	if r.Response {
		p.target = target
	}
	if p.err = p.checkHeader(m); p.err != nil {
		return p
	}
	if p.d.Loopback() {
		p.loopback = true
		return p
	}
	if p.d.Routed() && m.discovers() && n.parameters.Load().RouterCheckInterval == 0 {
		if gateway := peerNIOf(p.d.Next); gateway.view().MustWait(t.local) {
			p.park = gateway
		}
	}
	return p
}

// checkHeader returns an error if m's header contains a NID with a 16-byte address and the
// driver of the chosen path does not support such NIDs (lnet-wire 4.9). The error does not
// affect health and does not cause a resend: all NIs of a net have the same type, so
// another path would not help.
func (p *plan) checkHeader(m *message) error {
	nid := p.target
	if m.passage.forward && m.tx.Header.Src.IsLarge() {
		nid = m.tx.Header.Src
	}
	if !nid.IsLarge() || p.d.Loopback() || p.d.NI.Owner.(*ni).iface.LargeNIDs() {
		return nil
	}
	return fmt.Errorf("%s in a message from %s: %w: %w", nid, p.d.NI.NID, lnd.ErrLargeNID, ErrUnreachable)
}

// destination returns the peer NI that m is for, and completes the request r, by which
// selection chooses the path.
//
// An answer is sent to the NID that the request came from, through the neighbour that
// delivered the request: a router, or the requesting node itself (lnet-core 5.4). So a
// peer that lies about the source of a request can neither make this node connect to other
// nodes nor fill its memory with peers.
func (n *Node) destination(m *message, target lnet.NID, r *selection.Request, t *topology) (*peerNI, error) {
	var dest *peerNI
	if m.arrival.from == nil || m.passage.forward {
		target = n.gatewayNID(t, target, r.Source)
	}
	switch {
	case m.passage.forward:
		var err error
		if dest, err = n.remotePeer(m, target, t); err != nil {
			return nil, err
		}
		r.Forward, r.From = true, &m.arrival.from.PeerNI
		if source := n.peers.find(m.tx.Header.Src); source != nil {
			r.FromMultiRail = source.Peer().MultiRail
		}
	case m.arrival.from == nil:
		dest = n.peerFor(target)
	default:
		r.Response, r.Hop = true, &m.arrival.from.PeerNI
		dest = m.arrival.from
		if target.Net() != dest.NID.Net() {
			far := n.peers.find(target)
			if far == nil && !dest.gateway() { // the answer may go through another router
				far = n.newUnlistedPeerNI(target)
			}
			if far != nil {
				dest = far
			}
		}
	}
	r.Dest = &dest.PeerNI
	return dest, nil
}

// countsAsUse reports whether m counts as a use of dest, which protects the peer from
// eviction. It does if it is a request of a program, or is forwarded to a node that has
// answered discovery.
func (m *message) countsAsUse(dest *peerNI, t *topology) bool {
	if m.passage.forward {
		return dest.view().UpToDate(t.local)
	}
	return m.arrival.from == nil && !m.out.reserved
}

// Errors of a router that cannot forward a message, because it does not know the
// destination.
var (
	errNoPath = fmt.Errorf("this node has neither an interface on its net nor a route to it: %w", ErrUnreachable)
	errAbsent = fmt.Errorf("it did not answer when it was discovered a short time ago: %w", ErrUnreachable)
	errNoRoom = fmt.Errorf("too many unknown peers are being discovered: %w", ErrUnreachable)
)

// remotePeer returns the peer NI for target, the destination of m, which this node
// forwards. To save memory, a router creates no peer for a NID that it cannot reach, has
// just failed to reach, or need not know.
func (n *Node) remotePeer(m *message, target lnet.NID, t *topology) (*peerNI, error) {
	if dest := n.peers.find(target); dest != nil {
		return dest, nil
	}
	if t.first(target.Net()) != nil {
		if n.absent.paused(target, n.second.Load()) {
			return nil, errAbsent
		}
		if dest := n.mentionedPeer(target, m.arrival.from); dest != nil {
			return dest, nil
		}
		return nil, errNoRoom
	}
	if len(t.view.Routing.To(target.Net())) == 0 {
		return nil, errNoPath
	}
	if m.discoversTarget(target) {
		if dest := n.mentionedPeer(target, m.arrival.from); dest != nil {
			return dest, nil
		}
	}
	return n.newUnlistedPeerNI(target), nil // the next router may know it
}

// discovers reports whether the peers on m's path must be known before m is sent. This is true for
// requests of this node and for forwarded requests, except for those to the reserved
// portal (discovery 5.1).
func (m *message) discovers() bool {
	return !m.out.reserved && (m.tx.Header.Type == lnet.MsgPut || m.tx.Header.Type == lnet.MsgGet)
}

// discoversTarget reports the same about the peer with the NID target. It need not be known if it is an application,
// which does not answer discovery (decisions 242). On TCP, such a PID is that of a node.
func (m *message) discoversTarget(target lnet.NID) bool {
	return m.discovers() && (!m.tx.Header.DestPID.IsApplication() || target.Net().Type() == lnet.TypeTCP)
}

// regionOf returns the region that contains the first byte of the MD h, or nil if that
// memory is not registered. On a machine with one NUMA node it always returns nil, because
// the region does not matter.
func (n *Node) regionOf(h lnet.Handle) *memory.Region {
	if n.topology.Load().view.Distances == nil {
		return nil
	}
	return n.table.Region(h)
}

// payloadCPT returns the CPT nearest to the first byte of m's payload. If that is unknown
// because the memory is not registered, it returns the CPT on which the caller runs
// (selection 5.3).
func (n *Node) payloadCPT(m *message, t *topology) int {
	if t.view.Distances == nil {
		return selection.UnknownCPT // one NUMA node
	}
	for _, r := range [...]*memory.Region{m.out.region, m.tx.Payload.Region(), m.tx.Sink.Region()} {
		if r != nil && r.CPT() >= 0 {
			return r.CPT()
		}
	}
	return n.localCPT(t)
}

// localCPT returns the CPT on which the caller runs, or selection.UnknownCPT on a machine with
// one NUMA node.
func (n *Node) localCPT(t *topology) int {
	if t.view.Distances == nil {
		return selection.UnknownCPT
	}
	return n.numa.Here()
}

// pathError wraps an error of package selection in the corresponding error of this
// package.
func pathError(err error) error {
	if errors.Is(err, selection.ErrSource) {
		return fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	return err
}

// execute carries out the plan p for m. m no longer belongs to the caller.
func (n *Node) execute(m *message, p *plan) {
	if p.markUsed != nil {
		p.markUsed.noteUse(n.second.Load())
	}
	if p.want != nil {
		n.discoverer.discoverLater(p.want)
	}
	switch {
	case p.err != nil:
		m.schedule(stepConclude, p.err) // no NI was chosen
		return
	case p.park != nil:
		n.discoverer.park(m, p.park.NID)
		return
	case p.loopback:
		m.setPath(n.lo, nil, p)
	default:
		p.d.Commit()
		m.setPath(p.d.NI.Owner.(*ni), peerNIOf(p.d.Next), p)
	}
	if !m.counted {
		m.count()
	}
	n.transmit(m)
}

// setPath makes m leave through the NI i to the next hop, which is nil on 0@lo, as p
// plans. It sets the NIDs in m's header, and a deadline.
func (m *message) setPath(i *ni, next *peerNI, p *plan) {
	m.ni, m.peer = i, next
	h, target := &m.tx.Header, p.target
	h.Dest = target
	if !m.passage.forward {
		h.Src = i.NID
	}
	m.tx.To, m.tx.Neighbour = lnet.ProcessID{NID: target, PID: h.DestPID}, nil
	if next != nil {
		m.tx.Neighbour = &next.neighbour
		if next.NID != target {
			m.tx.To = lnet.ProcessID{NID: next.NID, PID: lnet.PIDLustre}
		}
	}
	m.out.waited, m.out.delayed = false, false
	m.setDeadline(p.now)
}

// setDeadline sets the deadline for sending m. now is the current time, or 0 if the caller
// did not read the clock. If m already has a deadline from an earlier path of the same
// attempt, it is kept. Forwarded messages have no deadline, because a
// router tries to send every message (lnet-core 9.3).
func (m *message) setDeadline(now int64) {
	n := m.node
	if m.passage.forward || m.out.deadline != 0 {
		return
	}
	if now == 0 {
		now = n.now()
	}
	m.out.deadline = now + n.parameters.Load().lifetime(m.ni.iface.Timeout())
}

// resend chooses a path for m again, after m waited for discovery or an attempt to send it
// failed, and sends it.
func (n *Node) resend(m *message, target lnet.NID) {
	p := n.plan(m, target)
	if p.park == nil && p.err == nil {
		if hop := p.hop(); m.bound && !hop.IsZero() {
			n.table.SetNextHop(&m.op, hop)
		}
		if m.out.retries > 0 {
			n.stats.resent.Add(1)
		}
	}
	n.execute(m, &p)
}

// ExplainOptions are the parameters of Explain.
type ExplainOptions struct {
	// Source, if neither zero nor AnyNID, is the local NID to send from.
	Source lnet.NID
	// Portal is the portal of the PUT or GET, 0 to 63.
	Portal uint32
}

// Explain returns the path that a PUT or GET to a NID would take now, with the reasons. It
// changes nothing: it does not start discovery, and treats an unknown NID as a peer that
// has only this NID. If there is no path, the explanation's Err is ErrUnreachable,
// ErrInvalid or ErrNotMade.
func (a *Admin) Explain(to lnet.NID, o ExplainOptions) selection.Explanation {
	n := a.n
	if err := n.checkMade(); err != nil {
		return selection.Explanation{Err: err}
	}
	t := n.topology.Load()
	if err := checkPortal(o.Portal); err != nil {
		return selection.Explanation{Err: err}
	}
	near := n.gatewayNID(t, to, o.Source)
	dest := n.peers.find(near)
	if dest == nil {
		dest = n.newUnlistedPeerNI(near)
	}
	r := selection.Request{
		Source: o.Source, Dest: &dest.PeerNI, Reserved: o.Portal == lnet.ReservedPortal, CPT: n.localCPT(t),
	}
	e := t.view.Explain(&r)
	e.Steps = append(t.troubleSteps(dest.Peer()), e.Steps...)
	if near != to {
		e.Steps = append([]selection.Step{{
			What: fmt.Sprintf("%s belongs to the gateway %s; the message goes to the gateway itself by that NID", to, near),
		}}, e.Steps...)
	}
	if !r.Reserved && dest.view().MustWait(t.local) {
		e.Steps = append([]selection.Step{{
			What: "the peer is unknown or its NIDs may have changed: a message waits for discovery, which may find other paths",
		}}, e.Steps...)
	}
	if e.Err != nil {
		e.Err = pathError(e.Err)
	}
	return e
}
