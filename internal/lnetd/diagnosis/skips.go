package diagnosis

import (
	"cmp"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Skip is an examination that was not made.
type Skip struct {
	// Check says what was not examined.
	Check string `json:"check"`
	// Reason says why.
	Reason string `json:"reason"`
}

// Skipped returns what Examine could not examine, because the facts are missing.
func Skipped(f *Facts) []Skip {
	skipped := []Skip{}
	add := func(check, reason string) { skipped = append(skipped, Skip{check, reason}) }
	switch {
	case f.Node == nil:
		add("NIs, peers, routes and programs", "lnetd does not answer")
	case f.Node.Down:
		add("NIs, peers and routes", "LNet is not configured")
	}
	if f.Host == nil {
		add("interfaces, addresses, limits and disks of the host", cmp.Or(f.HostUnknown, "the host cannot be examined"))
	} else {
		skipped = append(skipped, f.Host.Skips...)
	}
	if f.Node != nil {
		for _, net := range f.uninspectable() {
			add(fmt.Sprintf("interfaces and ports of NIs on %s", net), "doctor only knows the network below nets of the type tcp")
		}
	}
	return append(skipped, skippedOfPeer(f)...)
}

// uninspectable returns the nets of NIs about which the host shows nothing.
func (f *Facts) uninspectable() (nets []lnet.Net) {
	for k := range f.Node.Nets.Nets {
		n := &f.Node.Nets.Nets[k]
		if t := n.Net.Type(); t != lnet.TypeTCP && t != lnet.TypeLO {
			nets = append(nets, n.Net)
		}
	}
	return nets
}

// skippedOfPeer returns what was not examined about the peer.
func skippedOfPeer(f *Facts) (skipped []Skip) {
	p := f.Peer
	if p == nil || p.NID.IsLoopback() {
		return nil
	}
	add := func(check, reason string) { skipped = append(skipped, Skip{check + " of " + p.NID.String(), reason}) }
	switch {
	case p.Path == nil:
		add("the host and the port", "there is no path")
	case !p.Path.Gateway.IsZero():
		add("the host and the port", "the path leads through the gateway "+p.Path.Gateway.String())
	case p.TCP == nil:
		add("the host and the port", fmt.Sprintf("doctor cannot probe nets of the type %s", p.NID.Net().Type()))
	case p.TCP.Large == Untried:
		add("large packets", "the host does not answer to small packets, or answers too rarely")
	}
	if p.Ping.Error != nil {
		add("discovery, the other NIDs and the way of answers", "the peer does not answer")
	}
	return append(skipped, p.Skips...)
}
