package selection

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// chooser makes one choice. If t is not nil, it records the reasons there.
type chooser struct {
	v *View
	r *Request
	t *trace
}

// Choose returns the path for the message that r describes (selection 3 to 5). It changes
// nothing and does not keep r. It returns ErrSource if r.Source is not a local NID,
// ErrUnreachable if no path exists, and ErrInconsistent if parts of the view contradict
// each other. It allocates memory only if it returns an error.
func (v *View) Choose(r *Request) (Decision, error) {
	c := chooser{v: v, r: r}
	return c.choose()
}

// routingCase is one of the cases of selection 4.
type routingCase uint8

const (
	loopback routingCase = iota
	sourceLocal
	sourceRemote
	exactLocal
	exactRemote
	anyOfPeer
)

// classify determines which of the cases of selection 4 applies to the request (selection
// 3, step 5).
func (c *chooser) classify(p *Peer) routingCase {
	r, net := c.r, c.r.Dest.net
	if !r.Source.IsZero() && !r.Source.IsAny() {
		if net == r.Source.Net() {
			return sourceLocal
		}
		return sourceRemote
	}
	local := c.v.Local.Net(net) != nil
	exact := !p.MultiRail || r.Recovery || r.Forward && local && !c.mayRedirect()
	switch {
	case !exact:
		return anyOfPeer
	case local:
		return exactLocal
	default:
		return exactRemote
	}
}

// mayRedirect reports whether a router may send a message, whose destination is on a local
// net, to another NID of the multi-rail destination (selection 4.4). It may if the
// requested NID does not work properly and the source is multi-rail.
func (c *chooser) mayRedirect() bool {
	d := c.r.Dest
	return c.r.FromMultiRail && (!d.Up.Load() || d.trouble() != 0 || d.Health.Load() < MaxHealth)
}

func (c *chooser) choose() (Decision, error) {
	d := c.r.Dest
	if d.NID.IsLoopback() {
		c.t.enter(loopback)
		return c.loopback()
	}
	p := d.peer.Load()
	if p == nil {
		return Decision{}, fmt.Errorf("%s does not belong to a known peer: %w", d.NID, ErrInconsistent)
	}
	h := c.classify(p)
	c.t.enter(h)
	switch h {
	case sourceLocal, sourceRemote:
		return c.fromSource(p, h == sourceLocal)
	case exactLocal:
		return c.exactLocal(p)
	case exactRemote:
		return c.exactRemote(p)
	default:
		return c.anyOfPeer(p)
	}
}

func (c *chooser) loopback() (Decision, error) {
	n := c.v.Local.Net(lnet.LoNet)
	if n == nil {
		return Decision{}, fmt.Errorf("this node has no net lo: %w", ErrInconsistent)
	}
	return Decision{NI: n.NIs[0], Final: c.r.Dest}, nil
}

// direct returns the path from i to the peer NI to, without a gateway. n is the net of i.
func (c *chooser) direct(i *NI, n *Net, to *PeerNI) Decision {
	return Decision{NI: i, Next: to, Final: to, local: c.v.Local, net: n}
}

// fromSource handles requests with a given source, for peers that are multi-rail or not
// (selection 4.1, 4.2). If local is true, source and destination are on the same net and
// determine the path; otherwise the path leads through a gateway.
func (c *chooser) fromSource(p *Peer, local bool) (Decision, error) {
	i, n := c.v.Local.Find(c.r.Source)
	if i == nil {
		return Decision{}, fmt.Errorf("%s: %w", c.r.Source, ErrSource)
	}
	var d Decision
	if local {
		d = c.direct(i, n, c.r.Dest)
	} else {
		var err error
		if d, err = c.routed(p, i, n); err != nil {
			return Decision{}, err
		}
	}
	d.prefer = c.prefers(p)
	return d, nil
}

// prefers reports whether Commit must make the chosen NI the preferred NI of the
// destination, if the destination has no preferred NI yet.
func (c *chooser) prefers(p *Peer) bool {
	return !p.MultiRail && !c.r.Response
}

// preferredNI returns the local NI that is preferred for the destination's net, or nil. It
// is the preferred NI of the first peer NI there that has one (selection 4.3). If that
// peer NI prefers several NIs, preferredNI returns the first whose link is up, or the
// first if all links are down (decisions 180).
func (c *chooser) preferredNI(p *Peer) (*NI, *Net) {
	pn := p.Net(c.r.Dest.net)
	if pn == nil {
		return nil, nil
	}
	// A policy may name an NI on another net. From there the destination can only be
	// reached through a gateway.
	on := c.v.Local.Net(pn.ID)
	for _, q := range pn.NIs {
		if s := q.sources.Load(); s != nil {
			return c.firstSource(s.nids, on)
		}
		if first := q.first.Load(); first != nil {
			i, n := c.v.Local.Find(*first)
			if on != nil && n != on {
				return nil, nil
			}
			return i, n
		}
	}
	return nil, nil
}

// firstSource returns the first local NI that has one of these NIDs and whose link is up.
// If all links are down, it returns the first NI. If on is not nil, only NIs on that net
// are considered.
func (c *chooser) firstSource(nids []lnet.NID, on *Net) (first *NI, its *Net) {
	for _, nid := range nids {
		i, n := c.v.Local.Find(nid)
		switch {
		case i == nil || on != nil && n != on:
		case !i.Fatal.Load():
			return i, n
		case first == nil:
			first, its = i, n
		}
	}
	return first, its
}

// exactLocal handles messages to a local net for which only the requested NID may be used:
// the peer has only one NID, or the message must reach this NID (selection 4.3).
func (c *chooser) exactLocal(p *Peer) (Decision, error) {
	dest := c.r.Dest
	n := c.v.Local.Net(dest.net)
	if dest == c.r.From {
		return Decision{}, fmt.Errorf("%s is the neighbour that the message came from: %w", dest.NID, ErrUnreachable)
	}
	var d Decision
	if !c.r.Forward && !c.r.Reserved && !c.r.Recovery {
		if i, on := c.preferredNI(p); i != nil {
			c.t.notePreferredNI(i)
			d = c.direct(i, on, dest)
		}
	}
	if d.NI == nil {
		d = c.direct(c.bestNI(n, dest.combinedTrouble()), n, dest)
	}
	d.prefer = !c.r.Forward && c.prefers(p)
	return d, nil
}

// exactRemote is like exactLocal, but for destinations behind a gateway.
func (c *chooser) exactRemote(p *Peer) (Decision, error) {
	i, n := c.preferredNI(p)
	if i != nil {
		c.t.notePreferredNI(i)
	}
	d, err := c.routed(p, i, n)
	if err != nil {
		return Decision{}, err
	}
	d.prefer = c.prefers(p)
	return d, nil
}

// anyOfPeer handles messages to a multi-rail peer for which any NID of the peer may be
// used. It uses a gateway only if the peer shares no net with this node (selection 4.3).
func (c *chooser) anyOfPeer(p *Peer) (Decision, error) {
	pn, n := c.bestNet(p)
	if pn == nil {
		return c.routed(p, nil, nil)
	}
	i := c.bestNI(n, pn.combinedTrouble())
	to := c.bestPeerNI(pn, i)
	switch {
	case to == nil:
		return Decision{}, fmt.Errorf("%s: its peer has no NID on %s other than the sender of the message: %w", c.r.Dest.NID, pn.ID, ErrUnreachable)
	case to.NID.IsLoopback():
		return Decision{NI: i, Final: to}, nil
	}
	return c.direct(i, n, to), nil
}

// routed returns a path through a gateway (selection 5.5). It leads from the NI i on the
// net n, or from any NI if i is nil.
func (c *chooser) routed(p *Peer, i *NI, n *Net) (Decision, error) {
	final := c.r.Dest
	d := Decision{NI: i, net: n, local: c.v.Local}
	if hop := c.r.Hop; hop != nil && c.v.Routing.gateway(hop.peer.Load()) {
		c.t.noteGivenHop(hop)
		d.Next = hop
	} else {
		to := final.net
		// A peer that is not multi-rail keeps the requested NID.
		if i == nil && !c.r.Forward && p.MultiRail && !c.r.Recovery {
			pn := c.bestRemoteNet(p)
			if pn == nil {
				return Decision{}, fmt.Errorf("%s: this node has neither an interface on a net of its peer nor a route to one: %w", final.NID, ErrUnreachable)
			}
			if final = c.bestPeerNI(pn, nil); final == nil {
				return Decision{}, fmt.Errorf("%s: its peer has no NID on %s other than the sender of the message: %w", c.r.Dest.NID, pn.ID, ErrUnreachable)
			}
			to = pn.ID
		}
		if len(c.v.Routing.To(to)) == 0 {
			return Decision{}, fmt.Errorf("%s: no route to %s: %w", final.NID, to, ErrUnreachable)
		}
		best := c.bestRoute(to, final, n)
		if best.route == nil {
			return Decision{}, fmt.Errorf("%s: no usable route to %s: %w", final.NID, to, ErrUnreachable)
		}
		d.Next, d.Route, d.routeTurn = best.gateway, best.route, best.turn
	}
	d.Final = final
	if d.NI == nil {
		on := c.v.Local.Net(d.Next.net)
		if on == nil {
			return Decision{}, fmt.Errorf("gateway %s is not on a local net: %w", d.Next.NID, ErrInconsistent)
		}
		d.NI, d.net = c.bestNI(on, d.Next.combinedTrouble()), on
	}
	return d, nil
}

// Commit records that a message is sent along d (selection 5.7), so that the next message
// takes another path if the paths are otherwise equal. The caller must call it for every
// attempt to send, even if the message is then queued or dropped. If d was chosen for a
// peer that is not multi-rail and has no preferred NI, Commit may also make d.NI the
// preferred NI.
func (d *Decision) Commit() {
	if d.Loopback() {
		return
	}
	d.Next.recordTurn()
	turn := d.local.turn.Add(1)
	d.net.turn.Store(turn)
	d.NI.turn.Store(turn)
	if d.Routed() {
		d.Final.recordTurn()
	}
	if d.Route != nil {
		d.Route.turn.Store(d.routeTurn)
	}
	if d.prefer {
		d.Final.Prefer(d.NI)
	}
}

// recordTurn records that the latest message to the peer was sent to p, by giving p and
// its net the highest turn.
func (p *PeerNI) recordTurn() {
	peer := p.peer.Load()
	if peer == nil {
		return
	}
	turn := peer.turn.Add(1)
	if n := peer.Net(p.net); n != nil {
		n.turn.Store(turn)
	}
	p.turn.Store(turn)
}
