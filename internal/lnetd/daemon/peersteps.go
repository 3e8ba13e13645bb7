package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func newPeer(p *config.Peer) node.NewPeer {
	return node.NewPeer{
		Primary: p.Primary, Others: p.Others,
		ConfigureOptions: discovery.ConfigureOptions{SingleRail: p.SingleRail, Lock: p.Locked},
	}
}

// addPeers creates the peers of one batch. If one of them causes an error, addPeers returns the number
// of peers before that one, which have been created.
func (t *nodeTask) addPeers(ctx context.Context, steps []config.Step) (done int, _ error) {
	peers := make([]node.NewPeer, len(steps))
	for k, s := range steps {
		peers[k] = newPeer(s.(config.Change[config.Peer]).To)
	}
	done, err := t.ConfigurePeers(ctx, peers)
	if err != nil {
		err = peerRefused(steps[done].(config.Change[config.Peer]).To, err)
	}
	return done, err
}

// deletePeers deletes the peers of one batch. It ignores peers that do not exist, because they were
// gateways that only discovery creates, or vanished with their net. If a peer causes an error,
// deletePeers returns the number of peers before that one.
func (t *nodeTask) deletePeers(ctx context.Context, steps []config.Step) (done int, _ error) {
	primaries := make([]lnet.NID, len(steps))
	for k, s := range steps {
		primaries[k] = s.(config.Change[config.Peer]).From.Primary
	}
	return t.ForceDeletePeers(ctx, primaries)
}

// changePeer changes the NIDs of a peer, as the step c describes. It does nothing for a new peer that
// was only discovered, because discovery finds it again.
func (t *nodeTask) changePeer(ctx context.Context, c config.Change[config.Peer]) error {
	if c.From != nil {
		if gone := config.Without(c.From.Others, c.To.Others); len(gone) > 0 {
			if err := t.DeletePeerNIDs(ctx, c.From.Primary, gone); err != nil {
				return err
			}
		}
	}
	if c.To.Found {
		return nil // discovery finds its other NIDs again
	}
	p := newPeer(c.To)
	_, err := t.ConfigurePeers(ctx, []node.NewPeer{p})
	if err != nil && c.From != nil { // restore the deleted NIDs
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		p.Others = c.From.Others
		_, failed := t.ConfigurePeers(back, []node.NewPeer{p})
		err = errors.Join(err, failed)
		cancel()
	}
	if err == nil {
		return nil
	}
	return peerRefused(c.To, err)
}

// peerRefused returns the fault for the peer p of the configuration if err says that the node rejected
// it. Other errors are not about p, for example that the node is closed. They are returned unchanged.
func peerRefused(p *config.Peer, err error) error {
	if _, ok := errors.AsType[*discovery.PeerError](err); !ok {
		return err
	}
	f := api.Fault{
		Text:   fmt.Sprintf("%s: the peer %s cannot be configured", p.Where, p.Primary),
		Remedy: "make sure that each NID belongs to only one peer",
	}
	if errors.Is(err, discovery.ErrBusy) {
		f.Remedy = "routes use a peer with these NIDs: list all of its NIDs, with its primary NID first, or delete the routes first"
	}
	return refused(err, f)
}
