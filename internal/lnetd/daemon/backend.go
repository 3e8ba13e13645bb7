package daemon

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/capture"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// backend gives the control interface access to the node. It implements server.Backend, which
// documents the methods.
type backend struct {
	daemon *Daemon
	node   *nodeTask
	lst    *selftestTask
	guests *clientsTask
	// proxies are the drivers in other processes.
	proxies *proxiesTask
	// documents serializes the processing of documents, because a large document takes up to about 500 MB
	// of memory. A change of the node holds it within InTurn, so its holder must not call InTurn.
	documents changes
	// boot is the time of the host's boot, on the monotonic clock.
	boot time.Time
}

func newBackend(d *Daemon, n *nodeTask, lst *selftestTask, guests *clientsTask, proxies *proxiesTask) *backend {
	return &backend{daemon: d, node: n, lst: lst, guests: guests, proxies: proxies, documents: newChanges(), boot: bootTime()}
}

func (b *backend) InTurn(ctx context.Context, do func()) error { return b.node.changes.inTurn(ctx, do) }

func (b *backend) Version() api.Version { return b.daemon.version() }

func (b *backend) Nets() []api.Net {
	var nets []api.Net
	for _, info := range b.node.NIs() {
		if len(nets) == 0 || nets[len(nets)-1].Net != info.Net {
			nets = append(nets, api.Net{Net: info.Net})
		}
		n := &nets[len(nets)-1]
		n.NIs = append(n.NIs, controlNI(&info, b.node.engines.shownTunables(&info), b.node.engines.shownCPTs(info.NID), b.boot))
		n.NIs[len(n.NIs)-1].Proxy = b.node.engines.proxyOf(info.NID)
	}
	return nets
}

func (b *backend) SetNIHealth(nid lnet.NID, value int) error {
	if !nid.IsZero() {
		return b.node.Admin.SetNIHealth(nid, value)
	}
	return setAll(b.node.NIs(), func(i *node.NIInfo) error {
		if i.NID.IsLoopback() {
			return nil
		}
		return b.node.Admin.SetNIHealth(i.NID, value)
	})
}

func (b *backend) Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error) {
	var sender lnet.NID
	began := time.Now()
	info, err := b.node.Node.Ping(ctx, to, node.PingOptions{Source: source, Sender: &sender})
	took := time.Since(began)
	if err != nil {
		return api.PingResult{}, b.withCause(to.NID, err)
	}
	// A ping does not discover the peer, so the node's data about the peer, if any, is older than
	// the answer. For an unknown peer, the pinged NID is reported as its primary NID.
	res := api.PingResult{Primary: to.NID, PID: info.PID, RTT: int64(took), Sender: sender}
	if peer, ok := b.node.Peer(to.NID); ok {
		res.Primary, res.MultiRail = peer.Primary, peer.MultiRail
	}
	for _, ni := range info.NIs {
		res.NIDs = append(res.NIDs, ni.NID)
	}
	return res, nil
}

func (b *backend) Discover(ctx context.Context, nid lnet.NID, force bool) (api.Peer, error) {
	discover := b.node.Discover
	if force {
		discover = b.node.ForceDiscover
	}
	info, err := discover(ctx, nid)
	if err != nil {
		return api.Peer{}, b.withCause(nid, err)
	}
	return controlPeer(&info, b.boot, []api.PeerNI{}), nil
}

func (b *backend) Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error] {
	own := b.node.nids()
	return b.controlPeers(b.node.PeersAfter(ctx, after), func(p *node.PeerInfo) bool { return isForeign(p, own) })
}

func (b *backend) PeersOf(ctx context.Context, nids []lnet.NID) iter.Seq2[api.Peer, error] {
	return b.controlPeers(b.node.PeersOf(ctx, nids), func(*node.PeerInfo) bool { return true })
}

// controlPeers yields the peers for which shown returns true, in the form of the control interface. The NIs
// of a peer are valid only until the next iteration.
func (b *backend) controlPeers(peers iter.Seq2[node.PeerInfo, error], shown func(*node.PeerInfo) bool) iter.Seq2[api.Peer, error] {
	return func(yield func(api.Peer, error) bool) {
		nis := []api.PeerNI{}
		for info, err := range peers {
			if err == nil && !shown(&info) {
				continue
			}
			p := controlPeer(&info, b.boot, nis[:0])
			if nis = p.NIs; !yield(p, err) {
				return
			}
		}
	}
}

func (b *backend) Peer(nid lnet.NID) (api.Peer, bool) {
	info, ok := b.node.Peer(nid)
	if !ok {
		return api.Peer{}, false
	}
	return controlPeer(&info, b.boot, []api.PeerNI{}), true
}

// AddPeer implements server.Backend. It rejects a peer that is a gateway, even if the configuration file
// configures that peer (lnetctl 4.10, 8.3), and a peer with a NID of this node.
func (b *backend) AddPeer(ctx context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions) error {
	for _, nid := range append([]lnet.NID{primary}, others...) {
		if b.node.owns(nid) {
			return &discovery.PeerError{Op: "add", Peer: primary, NID: nid, Err: discovery.ErrInvalid}
		}
	}
	if p, ok := b.node.Peer(primary); ok && p.Gateway {
		return &discovery.PeerError{Op: "add", Peer: primary, Err: discovery.ErrBusy}
	}
	return b.node.ConfigurePeer(ctx, primary, others, o)
}

func (b *backend) DeletePeer(ctx context.Context, primary lnet.NID, force bool) error {
	if force {
		return b.node.ForceDeletePeer(ctx, primary)
	}
	return b.node.DeletePeer(ctx, primary)
}

func (b *backend) DeletePeerNIDs(ctx context.Context, primary lnet.NID, nids []lnet.NID) error {
	return b.node.DeletePeerNIDs(ctx, primary, nids)
}

func (b *backend) SetPeerHealth(nid lnet.NID, value int) error {
	if !nid.IsZero() {
		return b.node.Admin.SetPeerHealth(nid, value)
	}
	var errs []error
	for p, err := range b.node.PeersAfter(context.Background(), 0) {
		if err == nil {
			err = setAll(p.NIs, func(i *node.PeerNIInfo) error { return b.node.Admin.SetPeerHealth(i.NID, value) })
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// setAll calls set for each item of a list and returns the joined errors, except node.ErrNotFound,
// because an item may have been removed meanwhile.
func setAll[T any](list []T, set func(*T) error) error {
	var errs []error
	for k := range list {
		if err := set(&list[k]); err != nil && !errors.Is(err, node.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *backend) Rules() []selection.Rule           { return b.node.Rules() }
func (b *backend) TypedRules() []selection.TypedRule { return b.node.TypedRules() }

func (b *backend) ChangePolicies(ctx context.Context, change func(p *selection.Policies) error) error {
	return b.node.ChangePolicies(ctx, change)
}

func (b *backend) Explain(to, source lnet.NID, portal uint32) selection.Explanation {
	e := b.node.Explain(to, node.ExplainOptions{Source: source, Portal: portal})
	e.Err = b.withCause(to, e.Err)
	if waits := b.waitsOn(to.Net()); waits != "" {
		e.Steps = append([]selection.Step{{What: "here: " + waits}}, e.Steps...)
	}
	return e
}

func (b *backend) AddFault(r fault.Rule) error { return b.node.AddFault(r) }

func (b *backend) RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int {
	return b.node.RemoveFaults(k, source, dest)
}

func (b *backend) Faults(k fault.Kind) []fault.Status { return b.node.Faults(k) }
func (b *backend) ResetFaults()                       { b.node.ResetFaults() }
func (b *backend) Selftest() server.Selftest          { return b.lst }
func (b *backend) ResetCounters()                     { b.node.ResetCounters() }

func (b *backend) Capture(ctx context.Context, f capture.Filter) (server.Stream, error) {
	c, err := capture.Start(ctx, b.node.Admin, f, "lnetd "+api.BuildVersion())
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (b *backend) Events(f api.EventFilter) server.Stream { return b.daemon.events.Read(f) }

func (b *backend) Stats() api.Stats {
	s := api.Stats{Counters: api.Counters(b.node.Counters()), Log: api.LogCounts(b.daemon.bounded.Stats())}
	for r, count := range b.node.Drops() {
		s.Drops = append(s.Drops, api.Reason{Reason: node.DropReason(r).String(), Count: count})
	}
	for r, count := range b.node.Refusals() {
		s.Refusals = append(s.Refusals, api.Reason{Reason: lnd.Refusal(r).String(), Count: count})
	}
	return s
}
