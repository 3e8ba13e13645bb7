package doctor

import (
	"context"
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
	e, err := d.Client.Explain(ctx, nid.String(), "", "")
	if err != nil {
		return nil, err
	}
	p.Path = e.Path
	var wait sync.WaitGroup
	if p.Path != nil && p.Path.Gateway.IsZero() && diagnosis.OnTCP(p.Path.To) && nid.IP().IsValid() {
		at := netip.AddrPortFrom(nid.IP(), d.port(ctx))
		wait.Go(func() { p.TCP = probe(ctx, p.Path.From.IP(), at, d.Timeout) })
	}
	results, err := d.ping(ctx, nid)
	wait.Wait()
	if err != nil {
		return nil, err
	}
	p.Ping = results[0]
	if p.Ping.Error != nil {
		p.Elsewhere, err = d.elsewhere(ctx, n, nid)
		return p, err
	}
	if p.Rails, err = d.rails(ctx, n, p); err != nil {
		return nil, err
	}
	return p, d.discover(ctx, p)
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

// ping makes lnetd ping NIDs. It returns one result for each.
func (d *Doctor) ping(ctx context.Context, nids ...lnet.NID) ([]api.PingResult, error) {
	r := api.PingRequest{Timeout: d.Timeout.Seconds()}
	for _, n := range nids {
		r.NIDs = append(r.NIDs, n.String())
	}
	return d.Client.Ping(ctx, r)
}

// rails pings the other NIDs that the peer has reported, as far as they are on nets of this node.
func (d *Doctor) rails(ctx context.Context, n *diagnosis.Node, p *diagnosis.Peer) ([]api.PingResult, error) {
	var others []lnet.NID
	for _, nid := range p.Ping.NIDs {
		if nid != p.NID && len(others) < railsMost && slices.ContainsFunc(ownNets(n), func(net lnet.Net) bool { return net == nid.Net() }) {
			others = append(others, nid)
		}
	}
	if len(others) == 0 {
		return nil, nil
	}
	return d.ping(ctx, others...)
}

// elsewhere returns the first NID that answers and has the same address on another TCP net of this node, or zero.
func (d *Doctor) elsewhere(ctx context.Context, n *diagnosis.Node, nid lnet.NID) (lnet.NID, error) {
	if !diagnosis.OnTCP(nid) {
		return lnet.NID{}, nil
	}
	var others []lnet.NID
	for _, net := range ownNets(n) {
		if net != nid.Net() && net.Type() == lnet.TypeTCP {
			others = append(others, lnet.NIDFromIP(net, nid.IP()))
		}
	}
	if len(others) == 0 {
		return lnet.NID{}, nil
	}
	results, err := d.ping(ctx, others...)
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
