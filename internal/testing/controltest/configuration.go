package controltest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Waiting returns WaitList.
func (d *Daemon) Waiting() []api.WaitingNI { return slices.Clone(d.WaitList) }

// LNetDown returns Down.
func (d *Daemon) LNetDown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Down
}

// SetLNet sets Down.
func (d *Daemon) SetLNet(_ context.Context, r api.LNet) error {
	return d.change(fmt.Sprintf("SetLNet %+v", r), func() error { d.Down = !r.Configured; return nil })
}

// Configuration returns a configuration with the nets, routes, policies, globals and configured peers of
// the Daemon's fields.
func (d *Daemon) Configuration(context.Context) (api.Configuration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := api.Configuration{
		Nets: configuredNets(d.NetList), Routes: slices.Clone(d.RouteList), Routing: d.Forwards, Globals: d.Values,
	}
	for _, p := range d.PeerList {
		if discovery.State(p.State).Has(discovery.Configured) {
			c.Peers = append(c.Peers, ConfiguredPeer(&p))
		}
	}
	for k, r := range d.Policies.Rules() {
		rule := api.UDSPRule{Index: &k, Src: r.Src, Dst: r.Dst, Rte: r.Rte}
		if r.HasPriority() {
			rule.Priority = &r.Priority
		}
		c.UDSP = append(c.UDSP, rule)
	}
	return c, nil
}

// ConfiguredPeer returns a peer in the form of a configuration.
func ConfiguredPeer(p *api.Peer) api.ConfiguredPeer {
	c := api.ConfiguredPeer{Primary: p.Primary, MultiRail: p.MultiRail, NIs: []api.ConfiguredPeerNI{}}
	for k := range p.NIs {
		c.NIs = append(c.NIs, api.ConfiguredPeerNI{NID: p.NIs[k].NID})
	}
	return c
}

// configuredNets returns the nets as a configuration has them: without 0@lo, and without the NIDs of NIs
// that have interfaces.
func configuredNets(all []api.Net) (nets []api.Net) {
	for _, n := range all {
		if n.Net.Type() == lnet.TypeLO {
			continue
		}
		n.NIs = slices.Clone(n.NIs)
		for k := range n.NIs {
			if len(n.NIs[k].Interfaces) > 0 {
				n.NIs[k].NID = lnet.NID{}
			}
		}
		nets = append(nets, n)
	}
	return nets
}

// ChangeConfiguration calls ChangeFunc and returns its results. Unless the change is a dry run, Refuse
// is called before, and Done records the operation.
func (d *Daemon) ChangeConfiguration(_ context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	var done api.ConfigurationChanged
	if r.Dry {
		if d.ChangeFunc == nil {
			return done, nil
		}
		return d.ChangeFunc(r)
	}
	err := d.change(fmt.Sprintf("ChangeConfiguration %s %s", r.Mode, r.Name), func() (err error) {
		if d.ChangeFunc != nil {
			done, err = d.ChangeFunc(r)
		}
		return err
	})
	return done, err
}

// Described calls DescribedFunc. The peers that it returns are yielded by PeersOf.
func (d *Daemon) Described(_ context.Context, doc api.Document) (found api.Described, nids []lnet.NID, err error) {
	if d.DescribedFunc != nil {
		found, err = d.DescribedFunc(doc)
	}
	for _, p := range found.Peers {
		nids = append(nids, p.Primary)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.described, found.Peers = found.Peers, nil
	return found, nids, err
}

// PeersOf yields those peers of the last result of DescribedFunc that have the given primary NIDs.
func (d *Daemon) PeersOf(ctx context.Context, nids []lnet.NID) iter.Seq2[api.Peer, error] {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.described
	return func(yield func(api.Peer, error) bool) {
		for _, p := range list {
			if slices.Contains(nids, p.Primary) && !yield(p, ctx.Err()) {
				return
			}
		}
	}
}

// Errands calls ErrandsFunc.
func (d *Daemon) Errands(_ context.Context, doc api.Document) ([]api.Errand, error) {
	if d.ErrandsFunc == nil {
		return nil, nil
	}
	return d.ErrandsFunc(doc)
}

// AddNet adds NIs to NetList: "10.0.0.N@net" for the Nth interface. It returns node.ErrExists if the NID
// exists already, and ENODEV for interface names that begin with "no". Done records the whole request.
// The returned warnings are AddWarnings.
func (d *Daemon) AddNet(_ context.Context, r api.NetAddition) ([]string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return d.AddWarnings, d.change("AddNet "+string(text), func() error {
		nids := []lnet.NID{r.NID}
		if r.NID.IsZero() {
			nids = nil
		}
		for k, name := range r.Interfaces {
			if strings.HasPrefix(name, "no") {
				return fmt.Errorf("No interface matching '%s': %w", name, syscall.ENODEV) //nolint:staticcheck // the text of kernels
			}
			nid, err := lnet.ParseNID(fmt.Sprintf("10.0.0.%d@%s", k+1, r.Net))
			if err != nil {
				return err
			}
			nids = append(nids, nid)
		}
		for k, nid := range nids {
			i := slices.IndexFunc(d.NetList, func(n api.Net) bool { return n.Net == nid.Net() })
			if i < 0 {
				i = len(d.NetList)
				d.NetList = append(d.NetList, api.Net{Net: nid.Net()})
			}
			ni := api.NI{NID: nid, Status: "up", Interfaces: slices.Clone(r.Interfaces[min(k, len(r.Interfaces)):min(k+1, len(r.Interfaces))])}
			if slices.ContainsFunc(d.NetList[i].NIs, func(o api.NI) bool { return o.NID == nid }) {
				return node.ErrExists
			}
			d.NetList[i].NIs = append(d.NetList[i].NIs, ni)
		}
		return nil
	})
}

// DeleteNet removes NIs from NetList.
func (d *Daemon) DeleteNet(_ context.Context, r api.NetDeletion) error {
	return d.change(fmt.Sprintf("DeleteNet %s %v %s", r.Net, r.Interfaces, r.NID), func() error {
		found := false
		for k := range d.NetList {
			n := &d.NetList[k]
			n.NIs = slices.DeleteFunc(n.NIs, func(i api.NI) bool {
				goes := i.NID == r.NID || n.Net == r.Net && (len(r.Interfaces) == 0 ||
					slices.ContainsFunc(i.Interfaces, func(name string) bool { return slices.Contains(r.Interfaces, name) }))
				found = found || goes
				return goes
			})
		}
		d.NetList = slices.DeleteFunc(d.NetList, func(n api.Net) bool { return len(n.NIs) == 0 })
		return known(found)
	})
}

// SetNITunables only records the request in Done.
func (d *Daemon) SetNITunables(_ context.Context, r api.NITunables) error {
	text := fmt.Sprintf("SetNITunables %s %v %s", r.NID, r.All, r.Net)
	for _, name := range slices.Sorted(maps.Keys(r.LND)) {
		text += fmt.Sprintf(" %s=%d", name, r.LND[name])
	}
	if r.LNDTimeout != nil {
		text += fmt.Sprintf(" lnd_timeout=%d", *r.LNDTimeout)
	}
	return d.change(text, func() error { return nil })
}

// SetPeerState sets the state of peers in PeerList.
func (d *Daemon) SetPeerState(_ context.Context, nid lnet.NID, state uint32) error {
	return d.change(fmt.Sprintf("SetPeerState %s %d", nid, state), func() error {
		if nid.IsZero() {
			for k := range d.PeerList {
				d.PeerList[k].State = state
			}
			return nil
		}
		k := d.find(nid)
		if k < 0 {
			return discovery.ErrNotFound
		}
		d.PeerList[k].State = state
		return nil
	})
}

// CPTs returns two partitions with two processors each.
func (d *Daemon) CPTs() []api.CPT {
	return []api.CPT{
		{CPT: 0, Node: 0, CPUs: "0-1", Distances: []uint32{10, 21}}, {CPT: 1, Node: 2, CPUs: "2,5", Distances: []uint32{21, 10}},
	}
}

// Recovery returns Ill.
func (d *Daemon) Recovery() api.Recovery { return d.Ill }

// CPT returns 0.
func (d *Daemon) CPT(lnet.NID) int { return 0 }
