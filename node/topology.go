package node

import (
	"cmp"
	"slices"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// topology is a snapshot of the NIs, routes and parameters that all messages use. It is
// immutable; to change something, a new topology replaces it, while Node.infoMu is held.
type topology struct {
	lo *ni
	// nis are the NIs without 0@lo, grouped by net. Nets, and the NIs of each net, are in the
	// order in which they were added, unless ArrangeNIs has changed it.
	nis []*ni
	// view is what package selection needs: the NIs, routes and parameters.
	view selection.View
	// gatewayNIDs maps the NIDs that gateways have on other nets to the NIDs that routes use.
	gatewayNIDs gatewayNIDs
	// local describes this node for package discovery.
	local discovery.Local
}

// find returns the NI with this NID, or nil.
func (t *topology) find(nid lnet.NID) *ni {
	for _, i := range t.nis {
		if i.NID == nid {
			return i
		}
	}
	return nil
}

// first returns the first NI on a net, or nil.
func (t *topology) first(net lnet.Net) *ni {
	for _, i := range t.nis {
		if i.net == net {
			return i
		}
	}
	return nil
}

// other reports whether this node has another NI than i, apart from 0@lo.
func (t *topology) other(i *ni) bool {
	return slices.ContainsFunc(t.nis, func(o *ni) bool { return o != i })
}

// lastOn reports whether i is the only NI on its net.
func (t *topology) lastOn(i *ni) bool {
	return !slices.ContainsFunc(t.nis, func(o *ni) bool { return o != i && o.net == i.net })
}

// nets returns the nets on which this node has NIs, without that of 0@lo.
func (t *topology) nets() []lnet.Net {
	var nets []lnet.Net
	for _, i := range t.nis {
		if len(nets) == 0 || nets[len(nets)-1] != i.net {
			nets = append(nets, i.net)
		}
	}
	return nets
}

// with returns a copy of the topology with the NI i added, after the other NIs of its net.
func (t *topology) with(i *ni) *topology {
	at := len(t.nis)
	for k, o := range t.nis {
		if o.net == i.net {
			at = k + 1
		}
	}
	return t.withNIs(slices.Insert(slices.Clone(t.nis), at, i))
}

// without returns a copy of the topology without the NI i.
func (t *topology) without(i *ni) *topology {
	return t.withNIs(slices.DeleteFunc(slices.Clone(t.nis), func(o *ni) bool { return o == i }))
}

// arranged returns the NIs sorted in the order of nids, but with the NIs of each net
// together. NIs that are not in nids come last.
func (t *topology) arranged(nids []lnet.NID) []*ni {
	place := make(map[*ni]int, len(t.nis))
	for _, i := range t.nis {
		if place[i] = slices.Index(nids, i.NID); place[i] < 0 {
			place[i] = len(nids)
		}
	}
	first := map[lnet.Net]int{}
	for _, i := range t.nis {
		if k, ok := first[i.net]; !ok || place[i] < k {
			first[i.net] = place[i]
		}
	}
	nis := slices.Clone(t.nis)
	slices.SortStableFunc(nis, func(a, b *ni) int {
		return cmp.Or(first[a.net]-first[b.net], place[a]-place[b])
	})
	return nis
}

func (t *topology) withNIs(nis []*ni) *topology {
	next := *t
	next.nis = nis
	rails := make([]*selection.NI, 0, 1+len(nis))
	rails = append(rails, &t.lo.NI)
	for _, i := range nis {
		rails = append(rails, &i.NI)
	}
	next.view.Local = selection.NewLocal(t.view.Local, rails)
	return &next
}

// withParameters returns a copy of the topology with the given parameters.
func (t *topology) withParameters(p *Parameters) *topology {
	next := *t
	next.local.Mode = p.Discovery
	next.view.DiscoveryOff = p.Discovery == discovery.Off || p.Discovery == discovery.Static
	next.view.NUMARange = p.NUMARange
	next.view.AsymmetricRoutes = p.AsymmetricRoutes
	return &next
}

// by returns a copy of the topology with the given routes. far has the NIDs that their
// gateways have on other nets.
func (t *topology) by(routing *selection.Routing, far gatewayNIDs) *topology {
	next := *t
	next.view.Routing, next.gatewayNIDs = routing, far
	return &next
}

// withSeq returns a copy of the topology with seq as the sequence number of this node's
// ping info.
func (t *topology) withSeq(seq uint32) *topology {
	next := *t
	next.local.Seq = seq
	return &next
}

// better reports whether another NI on the net of i works better than i: its link is up
// while that of i is down, or its health is higher.
func (t *topology) better(i *ni) bool {
	down := i.Fatal.Load()
	for _, o := range t.nis {
		if o == i || o.net != i.net {
			continue
		}
		if d := o.Fatal.Load(); d != down {
			if down {
				return true
			}
			continue
		}
		if o.Health.Load() > i.Health.Load() {
			return true
		}
	}
	return false
}

func fatal(s lnd.LinkState) bool { return s == lnd.LinkDown }
