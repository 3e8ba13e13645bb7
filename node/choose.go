package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// path is how a message travels.
type path struct {
	ni *ni
	// target is the NID that goes into the header.
	target lnet.NID
	// hop is the next hop: the target, or a router.
	hop lnet.NID
}

// choose finds a path to target: the first NI on its net whose link is up, or
// else the first. A source that is not zero or AnyNID fixes the NI, which must
// be one of ours (ErrInvalid). Nets without an NI are ErrUnreachable.
func (n *Node) choose(source, target lnet.NID) (path, error) {
	if target.IsLoopback() {
		return path{ni: n.lo, target: target, hop: target}, nil
	}
	if target.IsZero() || target.IsAny() {
		return path{}, fmt.Errorf("target %s: %w", target, ErrInvalid)
	}
	t := n.topology.Load()
	net := target.Net()
	if !source.IsZero() && !source.IsAny() {
		i := t.find(source)
		switch {
		case i == nil:
			return path{}, fmt.Errorf("source %s: not a NID of this node: %w", source, ErrInvalid)
		case i.net != net:
			return path{}, fmt.Errorf("%s from %s: %w", target, source, ErrUnreachable)
		}
		return path{ni: i, target: target, hop: target}, nil
	}
	var best *ni
	for _, i := range t.nis {
		if i.net != net {
			continue
		}
		if lnd.LinkState(i.link.Load()) == lnd.LinkUp {
			return path{ni: i, target: target, hop: target}, nil
		}
		if best == nil {
			best = i
		}
	}
	if best == nil {
		return path{}, fmt.Errorf("%s: no interface on %s: %w", target, net, ErrUnreachable)
	}
	return path{ni: best, target: target, hop: target}, nil
}
