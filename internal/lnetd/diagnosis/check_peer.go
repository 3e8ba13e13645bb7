package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// Flags of a peer's state (discovery 3).
const (
	stateNoDiscovery = 1 << 1
	stateRouter      = 1 << 2
	stateDiscovered  = 1 << 4
	stateBadConfig   = 1 << 21
)

// silentPeers finds NIDs of peers that do not answer, or have failed before. Gateways without a route that is up are
// found with their routes. Peers that no program has used and that never answered are mistyped NIDs of pings.
func silentPeers(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	for k := range f.Node.Peers {
		p := &f.Node.Peers[k]
		if p.Unanswered || p.Gateway && !f.anyUp(p) {
			continue
		}
		for i := range p.NIs {
			n := &p.NIs[i]
			name := n.NID.String()
			switch {
			case n.Trouble != "":
				found = append(found, find(PeerSilent, name, n.Trouble, "lnetdctl doctor "+name))
			case n.Health.Value < api.MaxHealth:
				h := &n.Health
				found = append(found, find(PeerUnhealthy, name,
					fmt.Sprintf("health %d of %d; %d timeouts, %d errors, %d dropped, %d network timeouts",
						h.Value, api.MaxHealth, h.Timeouts, h.Errors, h.Dropped, h.NetworkTimeouts), "lnetdctl doctor "+name))
			}
		}
	}
	return found
}

// anyUp reports whether a route through the peer is up.
func (f *Facts) anyUp(p *api.Peer) bool {
	return slices.ContainsFunc(f.Node.Routes, func(r api.Route) bool {
		return r.Up && slices.ContainsFunc(p.NIs, func(n api.PeerNI) bool { return n.NID == r.Gateway })
	})
}

func conflictingPeers(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	for k := range f.Node.Peers {
		if p := &f.Node.Peers[k]; p.State&stateBadConfig != 0 {
			found = append(found, find(PeerConflict, p.Primary.String(), "lnetd has marked the peer BAD_CONFIG", ""))
		}
	}
	return found
}

// credits finds NIDs whose messages wait for credits.
func credits(f *Facts) (found []Finding) {
	if f.Node == nil {
		return nil
	}
	for k := range f.Node.Peers {
		for _, n := range f.Node.Peers[k].NIs {
			if waiting := -n.Credits.Available; waiting > 0 && n.Trouble == "" {
				found = append(found, find(CreditsExhausted, n.NID.String(),
					fmt.Sprintf("%d messages wait; it has %d credits", waiting, n.Credits.Max), ""))
			}
		}
	}
	return found
}

// path finds NIDs to which there is no path.
func path(f *Facts) []Finding {
	p := f.Peer
	if p == nil || p.Ping.Error == nil || p.Path != nil {
		return nil
	}
	name := p.NID.String()
	if !p.Elsewhere.IsZero() {
		return []Finding{wrongNet(p)}
	}
	e := p.Ping.Error
	return []Finding{find(NoRoute, name, cmp.Or(e.Cause, e.Text), e.Remedy)}
}

func wrongNet(p *Peer) Finding {
	return find(WrongNet, p.NID.String(), fmt.Sprintf("%s does not answer, and %s does", p.NID, p.Elsewhere), "use "+p.Elsewhere.String())
}

// ping finds out why a peer to which there is a path does not answer.
func ping(f *Facts) []Finding {
	p := f.Peer
	switch {
	case p == nil || p.Path == nil:
		return nil
	case p.Ping.Error == nil:
		return absent(f)
	case !p.Path.Gateway.IsZero():
		name := p.Path.Gateway.String()
		return []Finding{find(PingFailed, p.NID.String(), failure(p)+"; the path leads through the gateway "+name,
			"lnetdctl doctor "+name+" examines the path to the gateway; then look at the peer itself")}
	case p.TCP == nil:
		return []Finding{find(PingFailed, p.NID.String(), failure(p), "")}
	}
	return []Finding{unanswered(p)}
}

// unanswered returns the finding about a peer on a TCP net of this node that does not answer a ping.
func unanswered(p *Peer) Finding {
	t, name := p.TCP, p.NID.String()
	switch {
	case t.Connect == Answered && !p.Elsewhere.IsZero():
		return wrongNet(p)
	case t.Connect == Answered && t.Small == Answered && t.Large == Silent: // packets finds that
		return lost(p)
	case t.Connect == Answered:
		return find(LNetRefused, name, fmt.Sprintf("TCP connects to %s, and the LNet ping fails: %s", t.At, failure(p)), "")
	case t.Connect == Refused:
		return find(ConnectRefused, name, fmt.Sprintf("%s: %s", t.At, t.Detail), "")
	case t.Small == Answered || t.Small == Refused:
		return find(Filtered, name, fmt.Sprintf("no answer to connection attempts to %s; other packets to %s are answered", t.At, t.At.Addr()), "")
	case t.Connect == Untried:
		return find(PingFailed, name, failure(p), "")
	}
	evidence := fmt.Sprintf("no answer to connection attempts to %s, nor to other packets", t.At)
	if t.Connect == NoPath {
		evidence = fmt.Sprintf("%s: %s", t.At, t.Detail)
	}
	return find(HostUnreachable, name, evidence,
		fmt.Sprintf("check the address, and the network: ping %s, ip route get %s", t.At.Addr(), t.At.Addr()))
}

// failure returns the error of the ping as text.
func failure(p *Peer) string {
	e := p.Ping.Error
	if e.Cause != "" && e.Cause != e.Text {
		return e.Text + " (" + e.Cause + ")"
	}
	return e.Text
}

// absent checks that the node that has answered reports the NID that was pinged.
func absent(f *Facts) []Finding {
	p := f.Peer
	if p.NID.IsLoopback() || len(p.Ping.NIDs) == 0 || slices.Contains(p.Ping.NIDs, p.NID) {
		return nil
	}
	var nids []string
	for _, n := range p.Ping.NIDs {
		nids = append(nids, n.String())
	}
	return []Finding{find(NIDAbsent, p.NID.String(), "it reports "+strings.Join(nids, ", "), "")}
}

// packets finds paths that lose large packets although the ping, which is small, is answered.
func packets(f *Facts) []Finding {
	p := f.Peer
	if p == nil || p.TCP == nil || p.Ping.Error != nil || p.TCP.Small != Answered || p.TCP.Large != Silent {
		return nil
	}
	return []Finding{lost(p)}
}

func lost(p *Peer) Finding {
	t := p.TCP
	return find(PacketsLost, p.NID.String(),
		fmt.Sprintf("%s answers to small packets, and not to packets of %d bytes, the size that TCP uses", t.At.Addr(), t.LargeBytes), "")
}

// discoveryOn is the value of the parameter discovery if discovery is on.
const discoveryOn = 1

// discovery compares whether this node and the peer take part in discovery.
func discovery(f *Facts) []Finding {
	p := f.Peer
	if p == nil || p.Ping.Error != nil || f.Node == nil || p.NID.IsLoopback() {
		return nil
	}
	here, known := f.Node.Globals.Values["discovery"]
	switch {
	case !known:
		return nil
	case here == discoveryOn && p.Known != nil && p.Known.State&stateDiscovered != 0 && p.Known.State&stateNoDiscovery != 0:
		return []Finding{find(DiscoveryOffPeer, p.NID.String(), "discovery is on here, and the peer reports that it is off there", "")}
	case here != discoveryOn && p.Ping.MultiRail && len(p.Ping.NIDs) > 1:
		return []Finding{find(DiscoveryOffHere, p.NID.String(), fmt.Sprintf("the peer is Multi-Rail and has %d NIDs", len(p.Ping.NIDs)), "")}
	}
	return nil
}

// rails finds NIDs of the peer that do not answer although another one does.
func rails(f *Facts) (found []Finding) {
	if f.Peer == nil || f.Peer.Ping.Error != nil {
		return nil
	}
	for k := range f.Peer.Rails {
		r := &f.Peer.Rails[k]
		if r.Error != nil {
			found = append(found, find(RailSilent, r.Target, cmp.Or(r.Error.Cause, r.Error.Text), "lnetdctl doctor "+r.Target))
		}
	}
	return found
}

// twins finds out whether several hosts have the address of the peer. By default, Linux answers on each interface of
// a network for all addresses of the host. Interfaces that also answer for another address of the peer are its own.
func twins(f *Facts) []Finding {
	if f.Peer == nil || len(f.Peer.Claims) < 2 || !slices.ContainsFunc(f.Peer.Claims, func(c Claim) bool {
		return !slices.ContainsFunc(f.Peer.Aliases, func(a Claim) bool { return a.Hardware == c.Hardware })
	}) {
		return nil
	}
	c := f.Peer.Claims
	var all []string
	for k := range c {
		all = append(all, c[k].Hardware)
	}
	return []Finding{find(HostTwice, f.Peer.NID.String(),
		fmt.Sprintf("%s on %s has the hardware addresses %s", c[0].Address, c[0].Interface, strings.Join(all, " and ")), "")}
}

// netTrouble are the criteria of explain because of which a net is avoided.
var netTrouble = []string{"peer net trouble", "peer net health", "net health"}

// avoided finds nets that messages to the peer avoid because of trouble.
func avoided(f *Facts) (found []Finding) {
	if f.Peer == nil || f.Peer.Traffic == nil || f.Peer.Ping.Error != nil {
		return nil
	}
	for _, s := range f.Peer.Traffic.Steps {
		if s.What != "net" {
			continue
		}
		for k := 1; k < len(s.Candidates); k++ {
			c, better := &s.Candidates[k], &s.Candidates[k-1]
			if !slices.Contains(netTrouble, c.By) {
				continue
			}
			found = append(found, find(NetAvoided, f.Peer.NID.String(), fmt.Sprintf("messages use %s, because %s has %s %s, and %s has %s",
				s.Candidates[0].Name, c.Name, c.By, figure(c, c.By), better.Name, figure(better, c.By)), "lnetdctl explain "+f.Peer.NID.String()+" prints the reasons"))
		}
	}
	return found
}

// figure returns the value of a criterion as text.
func figure(c *api.RankedCandidate, by string) string {
	for _, f := range c.Figures {
		if f.Criterion == by {
			return f.Text
		}
	}
	return "none"
}

// OnTCP reports whether the NID is on a net of the type tcp.
func OnTCP(nid lnet.NID) bool { return nid.Net().Type() == lnet.TypeTCP }
