package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// Discover has a peer pinged, and pushed to if it needs that, whatever is known
// of it, and waits for the end (discovery 5.2); with force the push comes in any
// case. It returns what the peer is then. 0@lo stands for this node. Errors are
// the round's: ErrTimedOut, discovery.ErrBadInfo, that of a message; or ErrClosed
// or ctx's. ErrInHandler: a handler has called it.
func (n *Node) Discover(ctx context.Context, nid lnet.NID, force bool) (PeerInfo, error) {
	if err := n.mayWait(); err != nil {
		return PeerInfo{}, fmt.Errorf("discover %s: %w", nid, err)
	}
	if nid.IsLoopback() {
		return n.self(), nil
	}
	_, err := n.ask(ctx, func(m *discovery.Machine, now time.Duration, key discovery.Key) (lnet.NID, bool) {
		if force {
			m.ForceDiscover(now, nid, key)
		} else {
			m.Discover(now, nid, key)
		}
		return lnet.NID{}, false
	})
	if err != nil {
		return PeerInfo{}, fmt.Errorf("discover %s: %w", nid, err)
	}
	n.wanted(nid)
	p, ok := n.Peer(nid)
	if !ok {
		return PeerInfo{}, fmt.Errorf("discover %s: %w", nid, discovery.ErrNotFound)
	}
	return p, nil
}

// PrimaryNID is the primary NID of the node that has a NID. A node that is not
// known yet is discovered first, unless its primary NID is locked (discovery
// 7.5); on an error it is the NID itself. ErrInHandler: a handler has called it.
func (n *Node) PrimaryNID(ctx context.Context, nid lnet.NID) (lnet.NID, error) {
	primary, err := n.ask(ctx, func(m *discovery.Machine, now time.Duration, key discovery.Key) (lnet.NID, bool) {
		return m.PrimaryNID(now, nid, true, key)
	})
	if err != nil {
		return nid, fmt.Errorf("primary nid of %s: %w", nid, err)
	}
	n.wanted(nid)
	return primary, nil
}

// try has the discoverer do what may be refused, for a method.
func (n *Node) try(ctx context.Context, f func(m *discovery.Machine, now time.Duration) error) error {
	if err := n.mayWait(); err != nil {
		return err
	}
	return n.discoverer.try(ctx, f)
}

// ask asks the machine something that it may answer later.
func (n *Node) ask(
	ctx context.Context, question func(m *discovery.Machine, now time.Duration, key discovery.Key) (lnet.NID, bool),
) (lnet.NID, error) {
	if err := n.mayWait(); err != nil {
		return lnet.NID{}, err
	}
	d := &n.discoverer
	answer := make(chan discovery.Wake, 1)
	posted := d.post(func(m *discovery.Machine, now time.Duration) {
		d.lastKey++
		d.waiters[d.lastKey] = answer
		if nid, ok := question(m, now, d.lastKey); ok {
			delete(d.waiters, d.lastKey)
			answer <- discovery.Wake{NID: nid, Primary: nid}
		}
	})
	if !posted {
		return lnet.NID{}, ErrClosed
	}
	select {
	case w := <-answer:
		if errors.Is(w.Err, discovery.ErrClosed) {
			return lnet.NID{}, ErrClosed
		}
		return w.Primary, parkError(w.Err)
	case <-d.ended:
		return lnet.NID{}, ErrClosed
	case <-ctx.Done():
		return lnet.NID{}, context.Cause(ctx)
	}
}

// self describes this node as a peer would see it.
func (n *Node) self() PeerInfo {
	info := n.PingInfo()
	p := PeerInfo{Primary: lnet.LoopbackNID, MultiRail: true, Seq: info.Seq, Told: info.Seq}
	for _, i := range info.NIs {
		if p.Primary.IsLoopback() {
			p.Primary = i.NID
		}
		p.NIs = append(p.NIs, PeerNIInfo{NID: i.NID})
	}
	return p
}

// AddPeer says that a node has all these NIDs, as an upper layer knows of a
// server. The first that can be used stands for it, and with lock stays its
// primary NID whatever the node says; it is returned. The node is discovered
// meanwhile (discovery 7.6). ErrInHandler: a handler has called it.
func (n *Node) AddPeer(ctx context.Context, nids []lnet.NID, lock bool) (lnet.NID, error) {
	var primary lnet.NID
	err := n.try(ctx, func(m *discovery.Machine, now time.Duration) (err error) {
		primary, err = m.AddPeer(now, nids, lock)
		return err
	})
	return primary, err
}

// ConfigurePeer makes a peer as an administrator wants it, or adds NIDs to it: all
// of it or, with an error, nothing (discovery 7.7). Discovery does not change it
// then. Errors are of *discovery.PeerError, or ErrClosed or ctx's. ErrInHandler: a
// handler has called it.
func (n *Node) ConfigurePeer(
	ctx context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions,
) error {
	return n.try(ctx, func(m *discovery.Machine, now time.Duration) error {
		return m.Configure(now, primary, others, o)
	})
}

// DeletePeer deletes a peer; traffic may make it anew. One with a locked primary
// NID keeps that NID, unless force is set. Errors are as with ConfigurePeer.
func (n *Node) DeletePeer(ctx context.Context, primary lnet.NID, force bool) error {
	return n.try(ctx, func(m *discovery.Machine, now time.Duration) error {
		n.strangers.recount()
		if force {
			return m.ForceDelete(now, primary)
		}
		return m.Delete(now, primary)
	})
}

// DeletePeerNIDs takes NIDs from a peer; the primary one takes the peer with it.
// With the first error it ends. Errors are as with ConfigurePeer.
func (n *Node) DeletePeerNIDs(ctx context.Context, primary lnet.NID, nids []lnet.NID) error {
	return n.try(ctx, func(m *discovery.Machine, now time.Duration) error {
		n.strangers.recount()
		for _, nid := range nids {
			if err := m.DeleteNID(now, primary, nid); err != nil {
				return err
			}
			if nid == primary {
				break
			}
		}
		return nil
	})
}

// markStatus notes what a node has told of one of its NIs (discovery 7.3).
func (n *Node) markStatus(nid lnet.NID, up bool) {
	p := n.peers.find(nid)
	if p == nil {
		return
	}
	n.calledDown(p, !up)
	switch {
	case p.Up.Swap(up) != up:
		if !up {
			n.losePeerHealth(p, n.parameters.Load().HealthSensitivity)
		}
	case up && p.lastAlive.Load() == 0:
		p.health.value.Store(MaxHealth)
	}
}

// ChangePolicies changes the policies by which paths are chosen; they hold for
// what there is and what comes later. If change returns an error nothing
// changes, and ChangePolicies returns it; else ErrClosed or ctx's. change must not
// call the node. ErrInHandler: a handler has called ChangePolicies.
func (n *Node) ChangePolicies(ctx context.Context, change func(p *selection.Policies) error) error {
	return n.try(ctx, func(*discovery.Machine, time.Duration) error {
		d := &n.discoverer
		p := d.policies.Clone()
		if err := change(p); err != nil {
			return err
		}
		n.infoMu.Lock()
		defer n.infoMu.Unlock()
		d.policies = p
		n.rules.Store(p)
		d.compile(n.topology.Load())
		return nil
	})
}

// Rules lists the policies that have a place, TypedRules those with an ID.
func (n *Node) Rules() []selection.Rule { return n.made().rules.Load().Rules() }

// TypedRules lists the policies of the Multi-Rail design's form.
func (n *Node) TypedRules() []selection.TypedRule { return n.made().rules.Load().Typed() }

// SetPeerState sets what a peer is, in the flags that tests may set
// (discovery.Machine.SetState). discovery.ErrNotFound, and as with ConfigurePeer.
func (n *Node) SetPeerState(ctx context.Context, nid lnet.NID, s discovery.State) error {
	return n.try(ctx, func(m *discovery.Machine, now time.Duration) error { return m.SetState(now, nid, s) })
}
