package doctor

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/lnet"
)

// railsMost is the maximum number of other NIDs of a peer that are pinged.
const railsMost = 16

// peer asks about the peer with a NID, and asks the peer itself.
func (d *Doctor) peer(ctx context.Context, n *diagnosis.Node, nid lnet.NID) (*diagnosis.Peer, error) {
	p := &diagnosis.Peer{NID: nid}
	ping, err := d.Client.Explain(ctx, nid.String(), "", strconv.Itoa(lnet.ReservedPortal))
	if err != nil {
		return nil, err
	}
	traffic, err := d.Client.Explain(ctx, nid.String(), "", "")
	if err != nil {
		return nil, err
	}
	p.Path, p.Traffic = ping.Path, &traffic
	var wait sync.WaitGroup
	if p.Path != nil && p.Path.Gateway.IsZero() && diagnosis.OnTCP(p.Path.To) && nid.IP().IsValid() {
		at := netip.AddrPortFrom(nid.IP(), d.port(ctx))
		wait.Go(func() { p.TCP = probe(ctx, p.Path.From.IP(), at, d.Timeout) })
		wait.Go(func() { hosts(p) })
	}
	results, err := d.ping(ctx, n, nid)
	wait.Wait()
	if err != nil {
		return nil, err
	}
	p.Ping = results[0]
	aliases(n, p)
	if p.Ping.Error != nil {
		p.Elsewhere, err = d.elsewhere(ctx, n, nid)
		return p, err
	}
	if p.Rails, err = d.rails(ctx, n, p); err != nil {
		return nil, err
	}
	return p, d.discover(ctx, p)
}

// hosts finds out which hosts have the address of the peer, if it is on a network of this host.
func hosts(p *diagnosis.Peer) {
	var err error
	if p.Claims, err = neighbours(p.Path.From.IP(), p.NID.IP()); err != nil {
		p.Skips = append(p.Skips, skipARP(p.NID, err))
	}
}

// aliases finds out which hosts have the other addresses of the peer, if there are several answers for its address.
func aliases(n *diagnosis.Node, p *diagnosis.Peer) {
	if len(p.Claims) < 2 {
		return
	}
	var wait sync.WaitGroup
	var mu sync.Mutex // guards p.Aliases
	asked := 0
	for _, nid := range p.NIDs(n) {
		if nid.IP() == p.NID.IP() || !diagnosis.OnTCP(nid) || asked == railsMost {
			continue
		}
		asked++
		wait.Go(func() {
			found, err := neighbours(p.Path.From.IP(), nid.IP())
			if err != nil {
				return // the address is on another network, where the hosts in question are not
			}
			mu.Lock()
			defer mu.Unlock()
			p.Aliases = append(p.Aliases, found...)
		})
	}
	wait.Wait()
}

// neighbours returns the hosts that have an address, if it is on a network on which this host has the address own.
func neighbours(own, address netip.Addr) ([]diagnosis.Claim, error) {
	device := onLink(own, address)
	if device == "" {
		return nil, errNotEthernet
	}
	return claims(device, own, address)
}

// onLink returns the interface that has the address own in a network that contains the address other, or "".
func onLink(own, other netip.Addr) string {
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for k := range all {
		addrs, err := all[k].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == own && p.Contains(other) {
				return all[k].Name
			}
		}
	}
	return ""
}

// discover makes lnetd discover the peer, and sets what lnetd knows about it.
func (d *Doctor) discover(ctx context.Context, p *diagnosis.Peer) error {
	if p.NID.IsLoopback() {
		return nil
	}
	if _, err := d.Client.Discover(ctx, api.DiscoverRequest{NIDs: []string{p.NID.String()}}); err != nil {
		return err
	}
	known, err := d.Client.Peers(ctx, p.NID.String())
	if len(known) > 0 {
		p.Known = &known[0]
	}
	if err != nil && api.FaultOf(err).Code == api.CodePeerUnknown {
		err = nil
	}
	return err
}

// ping makes lnetd ping NIDs. It returns one result for each. lnetd forgets those that do not answer, unless it knew
// them before.
func (d *Doctor) ping(ctx context.Context, n *diagnosis.Node, nids ...lnet.NID) ([]api.PingResult, error) {
	r := api.PingRequest{Timeout: d.Timeout.Seconds()}
	for _, nid := range nids {
		r.NIDs = append(r.NIDs, nid.String())
	}
	results, err := d.Client.Ping(ctx, r)
	for k := range results {
		if err == nil && results[k].Error != nil {
			err = d.forget(ctx, n, nids[k])
		}
	}
	return results, err
}

// forget makes lnetd forget a NID that only exists because a ping of it has failed.
func (d *Doctor) forget(ctx context.Context, n *diagnosis.Node, nid lnet.NID) error {
	if slices.ContainsFunc(n.Peers, func(p api.Peer) bool {
		return slices.ContainsFunc(p.NIs, func(i api.PeerNI) bool { return i.NID == nid })
	}) {
		return nil
	}
	now, err := d.Client.Peers(ctx, nid.String())
	if err == nil && len(now) == 1 && now[0].Unanswered {
		err = d.Client.DeletePeer(ctx, api.PeerDeletion{Primary: now[0].Primary})
	}
	if err != nil && api.FaultOf(err).Code == api.CodePeerUnknown {
		err = nil
	}
	return err
}

// rails pings the other NIDs that the peer has reported, as far as they are on nets of this node.
func (d *Doctor) rails(ctx context.Context, n *diagnosis.Node, p *diagnosis.Peer) ([]api.PingResult, error) {
	var others []lnet.NID
	for _, nid := range p.Ping.NIDs {
		if nid != p.NID && len(others) < railsMost && slices.Contains(ownNets(n), nid.Net()) {
			others = append(others, nid)
		}
	}
	if len(others) == 0 {
		return nil, nil
	}
	return d.ping(ctx, n, others...)
}

// elsewhere returns the first NID that answers and has the same address on another TCP net of this node, or zero.
func (d *Doctor) elsewhere(ctx context.Context, n *diagnosis.Node, nid lnet.NID) (lnet.NID, error) {
	if !diagnosis.OnTCP(nid) {
		return lnet.NID{}, nil
	}
	var others []lnet.NID
	for _, other := range ownNets(n) {
		if other != nid.Net() && other.Type() == lnet.TypeTCP {
			others = append(others, lnet.NIDFromIP(other, nid.IP()))
		}
	}
	if len(others) == 0 {
		return lnet.NID{}, nil
	}
	results, err := d.ping(ctx, n, others...)
	for k := range results {
		if results[k].Error == nil && slices.Contains(results[k].NIDs, others[k]) {
			return others[k], nil
		}
	}
	return lnet.NID{}, err
}

func ownNets(n *diagnosis.Node) (nets []lnet.Net) {
	for k := range n.Nets.Nets {
		nets = append(nets, n.Nets.Nets[k].Net)
	}
	return nets
}

// lnetPort is the port at which kernel nodes listen.
const lnetPort = 988

// port returns the port to which lnetd connects over TCP.
func (d *Doctor) port(ctx context.Context) uint16 {
	c, err := d.Client.Configuration(ctx)
	if err != nil {
		return lnetPort
	}
	for _, key := range []string{"connect_port", "port"} {
		if n, err := strconv.ParseUint(number(c.Lnetd[key]), 10, 16); err == nil {
			return uint16(n)
		}
	}
	return lnetPort
}

// number returns a number in decoded JSON as text, or "" for other values.
func number(v any) string {
	if n, ok := v.(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return ""
}
