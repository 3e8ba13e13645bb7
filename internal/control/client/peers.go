package client

import (
	"context"
	"iter"
	"strconv"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Peers asks for the peers, or, with a NID, for the peer that has it.
func (c *Client) Peers(ctx context.Context, nid string) ([]api.Peer, error) {
	var peers []api.Peer
	for p, err := range c.EachPeer(ctx, nid, api.PeersDetail) {
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// EachPeer asks as Peers does. Of the peers' NIs no more is told than "peer show"
// prints at the level of detail, 0 to PeersDetail. However many there are, only a
// part of them is in memory; an error is the last thing that comes.
func (c *Client) EachPeer(ctx context.Context, nid string, detail int) iter.Seq2[api.Peer, error] {
	ask := parameters{"nid": nid}
	if nid == "" {
		ask = parameters{"page": api.FirstPage, "detail": strconv.Itoa(detail)}
	}
	return func(yield func(api.Peer, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for part := c.peersPart(ctx, ask); part != nil; {
			p := <-part
			if p.err != nil {
				yield(api.Peer{}, p.err)
				return
			}
			part = nil
			if p.Next != "" { // while this part is looked at
				part = c.peersPart(ctx, parameters{"page": p.Next, "detail": ask["detail"]})
			}
			for _, peer := range p.Peers.Peers {
				if peer.NIs == nil { // it had none
					peer.NIs = []api.PeerNI{}
				}
				if !yield(peer, nil) {
					cancel()
					if part != nil {
						<-part
					}
					return
				}
			}
		}
	}
}

// peersPart is a part of the peers, or why it did not come.
type peersPart struct {
	api.Peers
	err error
}

// peersPart asks for a part of the peers and returns at once.
func (c *Client) peersPart(ctx context.Context, ask parameters) <-chan peersPart {
	answered := make(chan peersPart, 1)
	go func() {
		var p peersPart
		p.err = c.get(ctx, "/v1/peers", ask, &p.Peers)
		answered <- p
	}()
	return answered
}

// AddPeer makes a peer, or gives it more NIDs.
func (c *Client) AddPeer(ctx context.Context, r api.PeerAddition) error {
	return c.post(ctx, "/v1/peers", r)
}

// DeletePeer deletes a peer, or takes NIDs away from it.
func (c *Client) DeletePeer(ctx context.Context, r api.PeerDeletion) error {
	return c.remove(ctx, "/v1/peers", r)
}

// SetPeerState sets the state word of peers.
func (c *Client) SetPeerState(ctx context.Context, r api.PeerState) error {
	return c.post(ctx, "/v1/peers/state", r)
}

// Recovery asks who is pinged until it is well.
func (c *Client) Recovery(ctx context.Context) (api.Recovery, error) {
	var r api.Recovery
	err := c.get(ctx, "/v1/recovery", nil, &r)
	return r, err
}

// CPTs asks for the CPU partitions of NIDs, joined by commas.
func (c *Client) CPTs(ctx context.Context, nids string) ([]api.CPTOfNID, error) {
	var r api.CPTs
	err := c.get(ctx, "/v1/cpts", parameters{"nids": nids}, &r)
	return r.CPTs, err
}
