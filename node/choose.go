package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// demand is what a path is wanted for.
type demand struct {
	// source, if it is neither zero nor AnyNID, is the NID to send from.
	source lnet.NID
	// target is where the message shall go; another NID of the same node does
	// as well, unless exact or a source says no.
	target lnet.NID
	exact  bool
	// fresh says that it does not matter which NI served the target before.
	fresh bool
	// hop, if not zero, is the neighbour to hand the message to; only with a
	// source.
	hop lnet.NID
}

// path is how a message travels.
type path struct {
	ni *ni
	// peer is the next hop: the target, or a router; nil on 0@lo.
	peer *peerNI
	// target is the NID that goes into the header.
	target lnet.NID
}

// choose finds a path. ErrInvalid: the source is not ours, or the target is no
// NID; ErrUnreachable: no NI of ours is on a net of the target.
func (n *Node) choose(d demand) (path, error) {
	if d.target.IsLoopback() && d.hop.IsZero() {
		return path{ni: n.lo, target: d.target}, nil
	}
	if d.target.IsZero() || d.target.IsAny() {
		return path{}, fmt.Errorf("target %s: %w", d.target, ErrInvalid)
	}
	t := n.topology.Load()
	if !d.source.IsZero() && !d.source.IsAny() {
		return n.pathFrom(t, d)
	}
	p := n.peers.find(d.target)
	if p == nil {
		i := t.first(d.target.Net())
		if i == nil {
			return path{}, fmt.Errorf("%s: no interface on %s: %w", d.target, d.target.Net(), ErrUnreachable)
		}
		p = n.peerFor(d.target, i)
	}
	var best path
	q := p.peer.Load()
	if q != nil && !d.exact {
		for _, p := range q.nis {
			t.improve(&best, p)
		}
	} else {
		if i := p.preferred.Load(); i != nil && !d.fresh && !i.closing.Load() {
			return path{ni: i, peer: p, target: p.nid}, nil
		}
		t.improve(&best, p)
	}
	if best.ni == nil {
		return path{}, fmt.Errorf("%s: no interface on its nets: %w", d.target, ErrUnreachable)
	}
	if q == nil {
		p.prefer(best.ni)
	}
	best.ni.turn.Add(1)
	best.peer.turn.Add(1)
	return best, nil
}

// pathFrom is the path from a given NI.
func (n *Node) pathFrom(t *topology, d demand) (path, error) {
	i := t.find(d.source)
	hop := d.target
	if !d.hop.IsZero() {
		hop = d.hop
	}
	switch {
	case i == nil:
		return path{}, fmt.Errorf("source %s: not a NID of this node: %w", d.source, ErrInvalid)
	case i.net != hop.Net():
		return path{}, fmt.Errorf("%s from %s: %w", d.target, d.source, ErrUnreachable)
	}
	p := n.peerFor(hop, i)
	if d.hop.IsZero() {
		p.prefer(i)
	}
	return path{ni: i, peer: p, target: d.target}, nil
}

// improve makes best a path to p, if there is one that is better.
func (t *topology) improve(best *path, p *peerNI) {
	net := p.nid.Net()
	for _, i := range t.nis {
		if i.net == net && (best.ni == nil || better(i, p, best)) {
			*best = path{ni: i, peer: p, target: p.nid}
		}
	}
}

// better compares a path over i to p with one that was found. What counts, in
// this order: a link that is up, the health of the NI, that of the peer NI,
// free credits of both, and whose turn it is.
func better(i *ni, p *peerNI, than *path) bool {
	j, q := than.ni, than.peer
	if a, b := i.linkUp(), j.linkUp(); a != b {
		return a
	}
	if a, b := i.health.value.Load(), j.health.value.Load(); a != b {
		return a > b
	}
	if a, b := p.health.value.Load(), q.health.value.Load(); a != b {
		return a > b
	}
	if a, b := i.credits.available.Load(), j.credits.available.Load(); i != j && a != b {
		return a > b
	}
	if a, b := p.credits.available.Load(), q.credits.available.Load(); p != q && a != b {
		return a > b
	}
	if a, b := i.turn.Load(), j.turn.Load(); i != j && a != b {
		return a < b
	}
	return p != q && p.turn.Load() < q.turn.Load()
}

func (i *ni) linkUp() bool { return lnd.LinkState(i.link.Load()) == lnd.LinkUp }
