package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// routes finds routes that are down, and nets without a route that is up.
func routes(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	up, down := map[lnet.Net]int{}, map[lnet.Net][]string{}
	for k := range f.Node.Routes {
		if r := &f.Node.Routes[k]; r.Up {
			up[r.Net]++
		} else {
			down[r.Net] = append(down[r.Net], r.Gateway.String())
		}
	}
	for k := range f.Node.Routes {
		r := &f.Node.Routes[k]
		gateways := down[r.Net]
		switch {
		case len(gateways) == 0:
		case up[r.Net] == 0:
			found = append(found, find(NetUnreachable, r.Net.String(), "no gateway is up: "+strings.Join(gateways, ", "),
				"lnetdctl doctor "+gateways[0]))
			delete(down, r.Net) // one finding for each net
		case !r.Up:
			name := r.Gateway.String()
			found = append(found, find(GatewayDown, r.Net.String()+" through "+name, "lnetd reports the route as down", "lnetdctl doctor "+name))
		}
	}
	return found
}

// gateways finds gateways that answer and cannot forward.
func gateways(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	peers := f.peersByNID()
	for k := range f.Node.Routes {
		r := &f.Node.Routes[k]
		name := r.Net.String() + " through " + r.Gateway.String()
		p := peers[r.Gateway]
		switch {
		case p == nil || p.State&stateDiscovered == 0 || troubled(p, r.Gateway):
		case p.State&stateRouter == 0:
			found = append(found, find(NotARouter, name, r.Gateway.String()+" answers, and reports that routing is off", ""))
		case r.Hops == 1 && !r.SingleHop:
			found = append(found, find(GatewayNoNI, name, fmt.Sprintf("the gateway reports no NI on %s, and the route has 1 hop", r.Net), ""))
		}
	}
	return found
}

// peersByNID returns the peers, each by all of its NIDs.
func (f *Facts) peersByNID() map[lnet.NID]*api.Peer {
	peers := make(map[lnet.NID]*api.Peer, len(f.Node.Peers))
	for k := range f.Node.Peers {
		p := &f.Node.Peers[k]
		for i := range p.NIs {
			peers[p.NIs[i].NID] = p
		}
	}
	return peers
}

// troubled reports whether the NID of the peer does not answer now.
func troubled(p *api.Peer, nid lnet.NID) bool {
	for i := range p.NIs {
		if p.NIs[i].NID == nid {
			return p.NIs[i].Trouble != ""
		}
	}
	return false
}

// asymmetric compares the gateway of the path to the peer with the one from which its answer came.
func asymmetric(f *Facts) []Finding {
	p := f.Peer
	if p == nil || p.Path == nil || p.Path.Gateway.IsZero() || p.Ping.Error != nil || p.Ping.Sender.IsZero() {
		return nil
	}
	same := func(q *api.Peer, nid lnet.NID) bool {
		return slices.ContainsFunc(q.NIs, func(n api.PeerNI) bool { return n.NID == nid })
	}
	through, from := p.Path.Gateway, p.Ping.Sender
	if through == from || slices.ContainsFunc(f.Node.Peers, func(q api.Peer) bool { return same(&q, through) && same(&q, from) }) {
		return nil
	}
	return []Finding{find(Asymmetric, p.NID.String(), fmt.Sprintf("the request went through %s, and the answer came from %s", through, from),
		fmt.Sprintf("add a route to %s through the gateway with the NID %s on the peer", p.Path.From.Net(), through))}
}

// routing checks the node as a router.
func routing(f *Facts) (found []Finding) {
	if f.Node == nil || f.Node.Routing.State != api.RoutingEnabled {
		return nil
	}
	for cpt := range f.Node.Routing.CPTs {
		p := &f.Node.Routing.CPTs[cpt]
		for _, pool := range []struct {
			size string
			api.Pool
		}{{"tiny", p.Tiny}, {"small", p.Small}, {"large", p.Large}} {
			if pool.Credits < 0 {
				found = append(found, find(BuffersExhausted, fmt.Sprintf("%s buffers of CPT %d", pool.size, cpt),
					fmt.Sprintf("%d messages wait; there are %d buffers", -pool.Credits, pool.Buffers),
					fmt.Sprintf("lnetdctl set %s_buffers N; if they stay exhausted, look for the peer that does not receive", pool.size)))
			}
		}
	}
	nets := map[lnet.Net]bool{}
	for _, n := range f.nis() {
		if !n.NID.IsLoopback() {
			nets[n.NID.Net()] = true
		}
	}
	if len(nets) == 1 && len(f.Node.Nets.Waiting) == 0 {
		found = append(found, find(RouterOneNet, "routing", "all NIs are on one net", ""))
	}
	return found
}
