package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Attach creates an MD that accepts requests on a portal, as the entry e defines. d must
// have OpPut, OpGet or both. PUTs that wait on a lazy portal are offered to the MD before
// Attach returns, so Attach may run handlers. Portal 0 is reserved for LNet. e.Match.NID
// may be any NID of a peer. Attach returns ErrInvalid, ErrTaken, ErrPortalClass or
// ErrClosed.
func (n *Node) Attach(e portals.Entry, d portals.MD) (lnet.Handle, error) {
	if err := n.checkMade(); err != nil {
		return lnet.NoHandle, fmt.Errorf("attach to portal %d: %w", e.Portal, err)
	}
	if e.Portal == lnet.ReservedPortal {
		return lnet.NoHandle, fmt.Errorf("attach to portal %d: it is reserved for LNet: %w", e.Portal, ErrInvalid)
	}
	e.Match.NID, _ = initiator(e.Match.NID, n.peers.find(e.Match.NID))
	h, accepted, dropped, err := n.table.Attach(e, d)
	n.resumeDelayed(accepted, dropped)
	return h, err
}

// resumeDelayed continues with PUTs that waited on a lazy portal and were offered to a new
// MD: it receives the accepted ones and drops the others.
func (n *Node) resumeDelayed(accepted, dropped portals.Operations) {
	var q messageQueue
	q.pushAll(accepted, stepPlace)
	q.pushAll(dropped, stepDrop)
	n.run(&q)
}

// Bind creates an MD that Put sends from or Get receives into. Requests of other nodes
// cannot use the MD. It must not have OpPut or OpGet, and holds at most 1 MiB. Bind
// returns ErrInvalid or ErrClosed.
func (n *Node) Bind(d portals.MD) (lnet.Handle, error) {
	if err := n.checkMade(); err != nil {
		return lnet.NoHandle, fmt.Errorf("bind: %w", err)
	}
	return n.table.Bind(d)
}

// Unlink unlinks an MD, so that no further request finds it. Operations under way
// continue; messages that were not sent yet are canceled. The MD's last event has Unlinked
// set. If operations are under way, the last event is that of the last operation.
// Otherwise it is an UNLINK event, which is delivered before Unlink returns, unless a
// handler of the MD is running.
//
// Unlink never blocks. It returns ErrNotFound if the MD does not exist or was unlinked. If
// the node is closed, the error also matches ErrClosed, and the MD may have ended without
// an event.
func (n *Node) Unlink(h lnet.Handle) error {
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("unlink MD %s: %w", h, err)
	}
	return n.table.Unlink(h)
}

// SetLazy makes PUTs that no entry accepts wait on the portal instead of being dropped.
// Each waiting PUT blocks the connection on which it arrived. SetLazy returns ErrInvalid,
// ErrExists if the portal has an inbox, or ErrTaken if part of the portal is claimed.
func (n *Node) SetLazy(portal uint32) error {
	if err := n.noInbox(portal); err != nil {
		return fmt.Errorf("portal %d: %w", portal, err)
	}
	return n.table.SetLazy(portal)
}

// ClearLazy makes the portal drop PUTs that no entry accepts, including those that are
// waiting; see SetLazy. It returns the same errors as SetLazy.
func (n *Node) ClearLazy(portal uint32) error {
	if err := n.noInbox(portal); err != nil {
		return fmt.Errorf("portal %d: %w", portal, err)
	}
	return n.clearLazy(portal)
}

// noInbox returns nil if the portal has no inbox. Otherwise it returns ErrExists, or
// ErrNotMade.
func (n *Node) noInbox(portal uint32) error {
	if err := n.checkMade(); err != nil {
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
