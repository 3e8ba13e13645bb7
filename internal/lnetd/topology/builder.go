package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// Limits of a Picture, besides that on peers.
const (
	nisMost        = 64
	railsMost      = 16
	remoteNetsMost = 64
	routesMost     = 16
	// textMost is the maximum length of a text in bytes.
	textMost = 200
)

// Builder makes a Picture. Its memory is bounded however many peers are added.
type Builder struct {
	picture Picture
	local   map[lnet.Net]bool
	most    int
	counts  Counts
}

// New returns a Builder of a Picture without peers. The Picture will show at most peersMost peers.
func New(nets api.Nets, routes []api.Route, routing api.Routing, peersMost int) *Builder {
	b := &Builder{local: map[lnet.Net]bool{}, most: peersMost}
	b.picture.Router = routing.State != api.RoutingDisabled
	b.addNets(nets)
	b.addRoutes(routes)
	return b
}

func (b *Builder) addNets(nets api.Nets) {
	at := map[lnet.Net]int{}
	p := &b.picture
	of := func(net lnet.Net) *Net {
		k, ok := at[net]
		if !ok {
			k = len(p.Nets)
			at[net] = k
			p.Nets = append(p.Nets, Net{Net: net})
		}
		return &p.Nets[k]
	}
	p.Nets = []Net{}
	for k := range nets.Nets {
		for i := range nets.Nets[k].NIs {
			n := &nets.Nets[k].NIs[i]
			if n.NID.IsLoopback() {
				continue
			}
			if p.Node.IsZero() {
				p.Node = n.NID
			}
			b.local[n.NID.Net()] = true
			ni := NI{Name: n.NID.String()}
			if len(n.Interfaces) > 0 {
				ni.Interface = clean(n.Interfaces[0])
			}
			ni.State, ni.Detail = stateOfNI(n)
			net := of(n.NID.Net())
			net.NIs = append(net.NIs, ni)
		}
	}
	for k := range nets.Waiting {
		w := &nets.Waiting[k]
		ni := NI{Name: fmt.Sprintf("%s(%s)", w.Net, clean(w.Interface)), Interface: clean(w.Interface), State: Waiting, Detail: clean(w.Cause)}
		if w.Interface == "" {
			ni.Name = w.NID.String()
		}
		net := of(w.Net)
		net.NIs = append(net.NIs, ni)
	}
	for k := range p.Nets {
		var parts []State
		for i := range p.Nets[k].NIs {
			parts = append(parts, p.Nets[k].NIs[i].State)
		}
		p.Nets[k].State = summary(parts)
	}
	p.limitNIs()
}

// limitNIs reduces the NIs to nisMost, and removes nets without NIs. It prefers NIs with problems, and then the first
// ones.
func (p *Picture) limitNIs() {
	var room [len(states)]int // number of NIs to keep, by the severity of their state
	for k := range p.Nets {
		for i := range p.Nets[k].NIs {
			room[p.Nets[k].NIs[i].State.severity()]++
		}
	}
	left := nisMost
	for s := len(room) - 1; s >= 0; s-- {
		room[s] = min(room[s], left)
		left -= room[s]
	}
	for k := range p.Nets {
		p.Nets[k].NIs = slices.DeleteFunc(p.Nets[k].NIs, func(n NI) bool {
			s := n.State.severity()
			if room[s] > 0 {
				room[s]--
				return false
			}
			p.OtherNIs.add(n.State)
			return true
		})
	}
	p.Nets = slices.DeleteFunc(p.Nets, func(n Net) bool { return len(n.NIs) == 0 })
}

func (b *Builder) addRoutes(routes []api.Route) {
	p := &b.picture
	p.RemoteNets = []RemoteNet{}
	states := map[lnet.Net][]State{}
	at := map[lnet.Net]int{}
	for k := range routes {
		r := &routes[k]
		state := Down
		if r.Up {
			state = OK
		}
		if states[r.Net] == nil {
			if len(at) == remoteNetsMost {
				p.OtherRemoteNets++
			} else {
				at[r.Net] = len(p.RemoteNets)
				p.RemoteNets = append(p.RemoteNets, RemoteNet{Net: r.Net})
			}
		}
		states[r.Net] = append(states[r.Net], state)
		i, ok := at[r.Net]
		if !ok {
			continue
		}
		n := &p.RemoteNets[i]
		if len(n.Routes) == routesMost {
			n.OtherRoutes++
			continue
		}
		n.Routes = append(n.Routes, Route{Gateway: r.Gateway, State: state, Hops: r.Hops, Priority: r.Priority})
	}
	for k := range p.RemoteNets {
		p.RemoteNets[k].State = summary(states[p.RemoteNets[k].Net])
	}
}

// Add adds a peer and returns its state. It keeps nothing of p.
func (b *Builder) Add(p *api.Peer) State {
	one := Peer{Primary: p.Primary, Gateway: p.Gateway, State: b.stateOf(p)}
	for i := range p.NIs {
		one.Messages += p.NIs[i].Statistics.Sent + p.NIs[i].Statistics.Received
	}
	b.counts.add(one.State, 1)
	peers := b.picture.Peers
	k, _ := slices.BinarySearchFunc(peers, &one, func(o Peer, one *Peer) int { return compare(&o, one) })
	if k >= b.most {
		return one.State
	}
	one.Rails, one.OtherRails = railsOf(p)
	if len(peers) == b.most {
		peers = peers[:len(peers)-1]
	}
	b.picture.Peers = slices.Insert(peers, k, one)
	return one.State
}

// stateOf returns the state of a peer.
func (b *Builder) stateOf(p *api.Peer) State {
	var local, all []State
	for i := range p.NIs {
		s, _ := stateOfRail(&p.NIs[i])
		all = append(all, s)
		if b.local[p.NIs[i].NID.Net()] {
			local = append(local, s)
		}
	}
	if len(local) > 0 {
		return summary(local)
	}
	return summary(all)
}

// railsOf returns the rails of a peer to show. If there are too many, those with problems come first.
func railsOf(p *api.Peer) (rails []Rail, others int) {
	for i := range p.NIs {
		n := &p.NIs[i]
		r := Rail{NID: n.NID, Health: n.Health.Value, Sent: n.Statistics.Sent, Received: n.Statistics.Received, QueuedBytes: n.QueuedBytes}
		r.State, r.Detail = stateOfRail(n)
		rails = append(rails, r)
	}
	if len(rails) > railsMost {
		slices.SortStableFunc(rails, func(x, y Rail) int { return y.State.severity() - x.State.severity() })
		others = len(rails) - railsMost
		rails = slices.Clone(rails[:railsMost])
	}
	return rails, others
}

// compare orders peers for display: those with problems come first, then gateways, then the busiest ones.
func compare(x, y *Peer) int {
	gateway := func(p *Peer) int {
		if p.Gateway {
			return 0
		}
		return 1
	}
	return cmp.Or(y.State.severity()-x.State.severity(), gateway(x)-gateway(y), cmp.Compare(y.Messages, x.Messages), x.Primary.Compare(y.Primary))
}

// Picture returns the Picture of what was added. The Builder must not be used any more.
func (b *Builder) Picture() *Picture {
	p := &b.picture
	if p.Peers == nil {
		p.Peers = []Peer{}
	}
	p.OtherPeers = b.counts
	for k := range p.Peers {
		p.OtherPeers.add(p.Peers[k].State, -1)
	}
	return p
}

func health(value int) string { return fmt.Sprintf("health %d of %d", value, api.MaxHealth) }

// clean returns a text of the network or the operator in a form that can be printed on one line of a terminal, and that
// XML permits. It replaces control and format characters, line separators and noncharacters.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == 0xfffe || r == 0xffff {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > textMost {
		s = strings.ToValidUTF8(s[:textMost], "") + "..."
	}
	return s
}
