package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Attach makes an MD that requests to a portal find. It takes OpPut, OpGet or
// both. PUTs that wait on a lazy portal are offered to it before Attach
// returns, so that handlers may run meanwhile. Portal 0 is LNet's own;
// e.Match.NID may be any of a peer's. ErrInvalid, ErrTaken, ErrPortalClass, ErrClosed.
func (n *Node) Attach(e portals.Entry, d portals.MD) (lnet.Handle, error) {
	if err := n.exists(); err != nil {
		return lnet.NoHandle, fmt.Errorf("attach to portal %d: %w", e.Portal, err)
	}
	if e.Portal == lnet.ReservedPortal {
		return lnet.NoHandle, fmt.Errorf("attach to portal %d: it is LNet's own: %w", e.Portal, ErrInvalid)
	}
	e.Match.NID, _ = initiator(e.Match.NID, n.peers.find(e.Match.NID))
	h, accepted, dropped, err := n.table.Attach(e, d)
	n.resumeDelayed(accepted, dropped)
	return h, err
}

// resumeDelayed has the PUTs go on that waited for a new MD, which has taken or
// refused them.
func (n *Node) resumeDelayed(accepted, dropped portals.Operations) {
	var q messageQueue
	q.pushAll(accepted, stepPlace)
	q.pushAll(dropped, stepDrop)
	n.run(&q)
}

// Bind makes an MD to send from, or to get into. It neither matches requests
// nor may have OpPut or OpGet, and holds at most 1 MiB. ErrInvalid, ErrClosed.
func (n *Node) Bind(d portals.MD) (lnet.Handle, error) {
	if err := n.exists(); err != nil {
		return lnet.NoHandle, fmt.Errorf("bind: %w", err)
	}
	return n.table.Bind(d)
}

// Unlink unlinks an MD: no further request finds it. Operations under way go
// on, messages that have not left yet are canceled. The MD's last event has
// Unlinked set: an UNLINK event if nothing is under way, which comes before
// Unlink returns unless a handler of the MD is running, else that of the last
// operation. Unlink never blocks. ErrNotFound; with ErrClosed, too, when the node is
// closed, and the MD may have gone without an event.
func (n *Node) Unlink(h lnet.Handle) error {
	if err := n.exists(); err != nil {
		return fmt.Errorf("unlink %s: %w", h, err)
	}
	return n.table.Unlink(h)
}

// SetLazy makes PUTs that no entry takes wait on the portal, instead of being
// dropped. The connection that each came on waits with it. ErrInvalid; ErrExists: the
// portal has an inbox, which sees to that; ErrTaken: part of it is claimed.
func (n *Node) SetLazy(portal uint32) error {
	if err := n.noInbox(portal); err != nil {
		return fmt.Errorf("portal %d: %w", portal, err)
	}
	return n.table.SetLazy(portal)
}

// ClearLazy undoes SetLazy and drops what waits on the portal. Errors are as there.
func (n *Node) ClearLazy(portal uint32) error {
	if err := n.noInbox(portal); err != nil {
		return fmt.Errorf("portal %d: %w", portal, err)
	}
	return n.clearLazy(portal)
}

// noInbox is nil if no inbox has the portal.
func (n *Node) noInbox(portal uint32) error {
	if err := n.exists(); err != nil {
		return err
	}
	if portal < lnet.Portals && n.uses[portal].isInbox() {
		return fmt.Errorf("it has an inbox: %w", ErrExists)
	}
	return nil
}

func (n *Node) clearLazy(portal uint32) error {
	dropped, err := n.table.ClearLazy(portal)
	dropDelayed(DropNoMatch, dropped)
	return err
}
