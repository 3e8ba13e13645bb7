package client

import (
	"context"
	"iter"
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Peers returns all peers or, if nid is not empty, only the peer that has this NID.
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

// EachPeer yields the peers that Peers returns, but only a part of the list is in memory at any time. The
// fields of peer NIs that are set are those that "peer show" prints at the verbosity detail, 0 to
// api.PeersDetail. An error ends the sequence.
func (c *Client) EachPeer(ctx context.Context, nid string, detail int) iter.Seq2[api.Peer, error] {
	ask := endpoint.Query{"nid": nid}
	if nid == "" {
		ask = endpoint.Query{"page": api.FirstPage, "detail": strconv.Itoa(detail)}
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
			if p.Next != "" { // read ahead
				part = c.peersPart(ctx, endpoint.Query{"page": p.Next, "detail": ask["detail"]})
			}
			for _, peer := range p.Peers.Peers {
				if peer.NIs == nil { // the peer had no NIs
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

// peersPart is one page of the peers, or the error of reading it.
type peersPart struct {
	api.Peers
	err error
}

// peersPart starts to request a page of peers and does not block. The channel receives the page or an error.
func (c *Client) peersPart(ctx context.Context, ask endpoint.Query) <-chan peersPart {
	answered := make(chan peersPart, 1)
	go func() {
		var p peersPart
		p.Peers, p.err = call(ctx, c, endpoint.Peers, ask)
		answered <- p
	}()
	return answered
}

// AddPeer creates a peer or, if the peer exists, adds NIDs to it.
func (c *Client) AddPeer(ctx context.Context, r api.PeerAddition) error {
	return change(ctx, c, endpoint.AddPeer, r)
}

// DeletePeer deletes a peer, or some of its NIDs.
func (c *Client) DeletePeer(ctx context.Context, r api.PeerDeletion) error {
	return change(ctx, c, endpoint.DeletePeer, r)
}

// SetPeerState sets the state flags of a peer or of all peers. It exists for tests.
func (c *Client) SetPeerState(ctx context.Context, r api.PeerState) error {
	return change(ctx, c, endpoint.SetPeerState, r)
}

// Recovery returns the NIDs of the NIs and peer NIs that are in recovery, which means that they are pinged
// until their health is full.
func (c *Client) Recovery(ctx context.Context) (api.Recovery, error) {
	return call(ctx, c, endpoint.Recovery, nil)
}

// CPTs returns the CPU partition of each of the NIDs in nids, a comma-separated list.
func (c *Client) CPTs(ctx context.Context, nids string) ([]api.CPTOfNID, error) {
	r, err := call(ctx, c, endpoint.CPTs, endpoint.Query{"nids": nids})
	return r.CPTs, err
}
