package daemon

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

func duration(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

func networkDown() error {
	return &api.Fault{
		Code: api.CodeNetworkDown, Errno: -int(syscall.ENETDOWN), Text: "Network is down",
		Cause: "LNet is not configured", Remedy: "configure it with: lnetdctl lnet configure --all",
	}
}

func (b *backend) LNetDown() bool { return b.node.unconfigured.Load() }

// SetLNet implements server.Backend. It either removes the whole configuration of LNet, so that only
// 0@lo is left, or configures LNet again. With r.All, the configuration that lnetd has loaded is
// applied; otherwise LNet is configured without NIs (lnetctl 4.1).
func (b *backend) SetLNet(ctx context.Context, r api.LNet) error {
	t := b.node
	switch {
	case r.Configured != t.unconfigured.Load():
		return nil // nothing to do
	case r.Configured:
		if r.All {
			if _, err := t.replace(ctx); err != nil {
				return err
			}
		}
		t.unconfigured.Store(false)
		if r.All {
			t.log.Info("LNet is configured from the configuration of lnetd")
		} else {
			t.log.Info("LNet is configured with the NI 0@lo alone")
		}
		return nil
	}
	if err := b.checkUnused(); err != nil {
		return err
	}
	have, err := t.runningState(ctx)
	if err != nil {
		return err
	}
	want := config.State{Parameters: have.Parameters, Drivers: have.Drivers, Buffers: have.Buffers}
	if err := t.apply(ctx, config.Diff(&have, &want, t.drivers.Options()), true); err != nil {
		return err
	}
	t.StopRouting() // otherwise LNet could not be configured as a router again for some seconds
	t.pending = nil
	t.unconfigured.Store(true)
	for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
		t.RemoveFaults(k, fault.NIDFilter{}, fault.NIDFilter{})
	}
	t.log.Info("LNet is unconfigured; its NIs, routes and peers are deleted")
	return t.forgetPeers(ctx)
}

// forgetPeers deletes all peers, including discovered ones.
func (t *nodeTask) forgetPeers(ctx context.Context) error {
	var primaries []lnet.NID
	for p, err := range t.PeersAfter(ctx, 0) {
		if err != nil {
			return err
		}
		if !p.Primary.IsLoopback() {
			primaries = append(primaries, p.Primary)
		}
	}
	for some := range slices.Chunk(primaries, stepsAtOnce) {
		if _, err := t.ForceDeletePeers(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// checkUnused returns an error if a client has transfer machines or a session of LNet selftest exists,
// because LNet cannot be unconfigured in these cases. The error names the client or the session.
func (b *backend) checkUnused() error {
	busy := func(cause, remedy string) error {
		return &api.Fault{Code: api.CodeLNetBusy, Errno: -int(syscall.EBUSY), Text: "LNet busy", Cause: cause, Remedy: remedy}
	}
	if b.guests != nil {
		for _, c := range b.Clients().Clients {
			if len(c.TMs) > 0 {
				return busy("the client "+c.Program+" has transfer machines", "end that program, or disconnect it with: lnetdctl clients drop")
			}
		}
	}
	if b.lst == nil {
		return nil
	}
	if s := b.lst.Status(); s.Console != nil || s.Session != nil {
		return busy("a session of LNet selftest exists", "end it with: lst end_session")
	}
	return nil
}

func (b *backend) Waiting() (list []api.WaitingNI) {
	for _, w := range b.node.engines.waiting() {
		ni := b.shownNI(&w.NI, b.node.engines.options())
		list = append(list, api.WaitingNI{
			Net: w.Net, Interface: w.Device, NID: w.NID, Cause: w.cause, Place: w.index, Tunables: ni.Tunables, LND: ni.LND, CPT: ni.CPT, Proxy: ni.Proxy,
		})
	}
	return list
}

func (b *backend) Recovery() api.Recovery {
	local, peers := b.node.Recovering()
	return api.Recovery{Local: local, Peers: peers}
}

// CPT returns the CPU partition to which LNet's hash assigns a NID. All partitions of the host are
// considered, because lnetd binds no NI to particular ones.
func (b *backend) CPT(nid lnet.NID) int {
	n := b.node.cpts()
	return nid.CPT(n, n)
}

// SetPeerState sets the state flags of the peer with the given NID, or of all peers if the NID is zero.
// It exists for tests.
func (b *backend) SetPeerState(ctx context.Context, nid lnet.NID, state uint32) error {
	nids := []lnet.NID{nid}
	if nid.IsZero() {
		nids = nil
		for p, err := range b.node.PeersAfter(ctx, 0) {
			if err != nil {
				return err
			}
			nids = append(nids, p.Primary)
		}
	}
	for _, n := range nids {
		err := b.node.SetPeerState(ctx, n, discovery.State(state))
		if err != nil && (!nid.IsZero() || !errors.Is(err, discovery.ErrNotFound)) {
			return err
		}
	}
	return nil
}

func (b *backend) shownPolicies() []api.UDSPRule {
	return server.ShownRules(b.node.Rules())
}
