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

// Discover pings the peer with nid, even if it is already known, pushes to it if needed,
// and waits for the result (discovery 5.2). It returns the resulting state of the peer. If
// nid is 0@lo, it returns the state of this node.
//
// Discover returns ErrTimedOut, discovery.ErrBadInfo or the error of a message if
// discovery fails; ErrClosed; ErrInHandler if a handler calls it; or ctx's error.
func (n *Node) Discover(ctx context.Context, nid lnet.NID) (PeerInfo, error) {
	return n.discover(ctx, nid, (*discovery.Machine).Discover)
}

// ForceDiscover is like Discover, but always pushes to the peer.
func (n *Node) ForceDiscover(ctx context.Context, nid lnet.NID) (PeerInfo, error) {
	return n.discover(ctx, nid, (*discovery.Machine).ForceDiscover)
}

func (n *Node) discover(
	ctx context.Context, nid lnet.NID, begin func(m *discovery.Machine, now time.Duration, nid lnet.NID, key discovery.Key),
) (PeerInfo, error) {
	if err := n.checkMayBlock(); err != nil {
		return PeerInfo{}, fmt.Errorf("discover %s: %w", nid, err)
	}
	if nid.IsLoopback() {
		return n.selfInfo(), nil
	}
	_, err := n.query(ctx, func(m *discovery.Machine, now time.Duration, key discovery.Key) (lnet.NID, bool) {
		begin(m, now, nid, key)
		return lnet.NID{}, false
	})
	if err != nil {
		return PeerInfo{}, fmt.Errorf("discover %s: %w", nid, err)
	}
	n.noteWanted(nid)
	p, ok := n.Peer(nid)
	if !ok {
		return PeerInfo{}, fmt.Errorf("discover %s: %w", nid, discovery.ErrNotFound)
	}
	return p, nil
}

// PrimaryNID returns the primary NID of the node that has nid. If that node is not known
// yet, PrimaryNID discovers it first and waits for the result, unless its primary NID is
// locked (discovery 7.5). On error it returns nid itself. The error is ErrInHandler if a
// handler calls it.
func (n *Node) PrimaryNID(ctx context.Context, nid lnet.NID) (lnet.NID, error) {
	primary, err := n.query(ctx, func(m *discovery.Machine, now time.Duration, key discovery.Key) (lnet.NID, bool) {
		return m.PrimaryNID(now, nid, true, key)
	})
	if err != nil {
		return nid, fmt.Errorf("get the primary NID of %s: %w", nid, err)
	}
	n.noteWanted(nid)
	return primary, nil
}

// callErr runs f in the discoverer's goroutine and returns its error. It returns
// ErrInHandler if a handler calls it.
func (n *Node) callErr(ctx context.Context, f func(m *discovery.Machine, now time.Duration) error) error {
	if err := n.checkMayBlock(); err != nil {
		return err
	}
	return n.discoverer.callErr(ctx, f)
}

// query calls question in the discoverer's goroutine and waits for the answer, a NID.
// question either returns the answer and true, or returns false; then the machine answers
// later, by a discovery.Wake for the given key.
func (n *Node) query(
	ctx context.Context, question func(m *discovery.Machine, now time.Duration, key discovery.Key) (lnet.NID, bool),
) (lnet.NID, error) {
	if err := n.checkMayBlock(); err != nil {
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

// selfInfo describes this node in the way in which it describes its peers.
func (n *Node) selfInfo() PeerInfo {
	info := n.PingInfo()
	p := PeerInfo{Primary: n.NID(), MultiRail: true, Seq: info.Seq, AckedSeq: info.Seq}
	for _, i := range info.NIs {
		p.NIs = append(p.NIs, PeerNIInfo{NID: i.NID})
	}
	return p
}

// AddPeerOptions are the parameters of AddPeer.
type AddPeerOptions struct {
	// Lock keeps the primary NID unchanged, whatever the node reports about itself.
	Lock bool
}

// AddPeer declares that all nids belong to one node, for example a server that an upper
// layer knows. The first usable NID becomes the node's primary NID and is returned.
// Discovery of the node starts in the background (discovery 7.6). AddPeer returns
// ErrInHandler if a handler calls it.
func (a *Admin) AddPeer(ctx context.Context, nids []lnet.NID, o AddPeerOptions) (lnet.NID, error) {
	var primary lnet.NID
	err := a.n.callErr(ctx, func(m *discovery.Machine, now time.Duration) (err error) {
		primary, err = m.AddPeer(now, nids, o.Lock)
		return err
	})
	return primary, err
}

// NewPeer describes a peer that an administrator configures.
type NewPeer struct {
	Primary lnet.NID
	// Others are the NIDs of the peer besides the primary one.
	Others []lnet.NID
	discovery.ConfigureOptions
}

// ConfigurePeer sets the NIDs of a peer, or adds NIDs to it, on behalf of an administrator
// (discovery 7.7). Discovery does not change the NIDs of a configured peer. On error
// nothing is changed. The error is a *discovery.PeerError, ErrClosed, ctx's error, or
// ErrInHandler if a handler calls it.
func (a *Admin) ConfigurePeer(
	ctx context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions,
) error {
	_, err := a.ConfigurePeers(ctx, []NewPeer{{primary, others, o}})
	return err
}

// ConfigurePeers does what ConfigurePeer does for many peers, in order, until one of them
// causes an error. It returns the number of peers before that one, which stay configured.
// Other work of discovery waits until it returns, so the peers should have at most a few
// thousand NIDs. Once it has begun, it does not end early if ctx ends. The errors are those
// of ConfigurePeer; only a *discovery.PeerError is about a certain peer.
func (a *Admin) ConfigurePeers(ctx context.Context, peers []NewPeer) (done int, _ error) {
	return a.eachPeer(ctx, len(peers), func(m *discovery.Machine, now time.Duration, k int) error {
		p := &peers[k]
		return m.Configure(now, p.Primary, p.Others, p.ConfigureOptions)
	})
}

// eachPeer calls change with 0, 1 and so on in the discoverer's goroutine, count times or
// until it returns an error. It returns the number of calls before that one. After each
// call, it does what the discoverer does between events.
func (a *Admin) eachPeer(
	ctx context.Context, count int, change func(m *discovery.Machine, now time.Duration, k int) error,
) (done int, _ error) {
	n := a.n
	err := n.callErr(ctx, func(m *discovery.Machine, now time.Duration) error {
		for ; done < count; done++ {
			if err := change(m, now, done); err != nil {
				return err
			}
			n.discoverer.act()
			n.discoverer.evict() // until configured peers are counted, they take the room of strangers
		}
		return nil
	})
	return done, err
}

// DeletePeer deletes the peer with this primary NID. Later traffic may create it again. If
// the primary NID is locked, the peer is kept with that NID only; see ForceDeletePeer. The
// errors are those of ConfigurePeer.
func (a *Admin) DeletePeer(ctx context.Context, primary lnet.NID) error {
	return a.deletePeer(ctx, primary, (*discovery.Machine).Delete)
}

// ForceDeletePeer is like DeletePeer, but also deletes a peer whose primary NID is locked.
func (a *Admin) ForceDeletePeer(ctx context.Context, primary lnet.NID) error {
	return a.deletePeer(ctx, primary, (*discovery.Machine).ForceDelete)
}

// ForceDeletePeers does what ForceDeletePeer does for many peers, in order, until one of
// them causes an error. It skips NIDs that no peer has. It returns the number of NIDs
// before the one that caused the error; their peers stay deleted. In all else it is like
// ConfigurePeers.
func (a *Admin) ForceDeletePeers(ctx context.Context, primaries []lnet.NID) (done int, _ error) {
	return a.eachPeer(ctx, len(primaries), func(m *discovery.Machine, now time.Duration, k int) error {
		if err := a.n.deletePeer(m, now, primaries[k], (*discovery.Machine).ForceDelete); !errors.Is(err, discovery.ErrNotFound) {
			return err
		}
		return nil
	})
}

type deletion = func(m *discovery.Machine, now time.Duration, primary lnet.NID) error

func (a *Admin) deletePeer(ctx context.Context, primary lnet.NID, remove deletion) error {
	return a.n.callErr(ctx, func(m *discovery.Machine, now time.Duration) error {
		return a.n.deletePeer(m, now, primary, remove)
	})
}

// deletePeer deletes a peer in the discoverer's goroutine.
func (n *Node) deletePeer(m *discovery.Machine, now time.Duration, primary lnet.NID, remove deletion) error {
	n.strangers.uncount(m.Find(primary))
	return remove(m, now, primary)
}

// DeletePeerNIDs removes NIDs from a peer, in order, until one of them causes an error.
// Removing the primary NID deletes the peer. The errors are those of ConfigurePeer.
func (a *Admin) DeletePeerNIDs(ctx context.Context, primary lnet.NID, nids []lnet.NID) error {
	n := a.n
	return n.callErr(ctx, func(m *discovery.Machine, now time.Duration) error {
		n.strangers.uncount(m.Find(primary))
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

// markStatus records the status that a node reported for one of its NIs (discovery 7.3).
func (n *Node) markStatus(nid lnet.NID, up bool) {
	p := n.peers.find(nid)
	if p == nil {
		return
	}
	n.reportDown(p, !up)
	switch {
	case p.Up.Swap(up) != up:
		if !up {
			n.lowerPeerHealth(p, n.parameters.Load().HealthSensitivity)
		}
	case up && p.lastAlive.Load() == 0:
		n.notePeerHealth(p, int(p.health.value.Swap(MaxHealth)), MaxHealth)
	}
}

// ChangePolicies changes the policies by which paths are chosen. It calls change with a
// copy of the current policies, and then applies the copy to all NIs, peers and routes,
// including those that are added later. If change returns an error, ChangePolicies returns
// it and applies nothing. Otherwise it returns ErrClosed, ctx's error, or ErrInHandler if
// a handler calls it. change must not call methods of the node.
func (a *Admin) ChangePolicies(ctx context.Context, change func(p *selection.Policies) error) error {
	n := a.n
	return n.callErr(ctx, func(*discovery.Machine, time.Duration) error {
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

// Rules lists the policies that have a position in a list. TypedRules lists the others.
func (a *Admin) Rules() []selection.Rule {
	if !a.n.isMade() {
		return nil
	}
	return a.n.rules.Load().Rules()
}

// TypedRules lists the policies that have an ID, in the form of the Multi-Rail design.
func (a *Admin) TypedRules() []selection.TypedRule {
	if !a.n.isMade() {
		return nil
	}
	return a.n.rules.Load().Typed()
}

// SetPeerState sets those state flags of a peer that tests may set (see
// discovery.Machine.SetState). It returns discovery.ErrNotFound if no peer has nid, and
// otherwise the errors of ConfigurePeer.
func (a *Admin) SetPeerState(ctx context.Context, nid lnet.NID, s discovery.State) error {
	return a.n.callErr(ctx, func(m *discovery.Machine, now time.Duration) error { return m.SetState(now, nid, s) })
}
