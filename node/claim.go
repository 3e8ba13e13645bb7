package node

import (
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Claim reserves match bits of a portal for the caller until Unclaim. The reserved values
// are those that equal bits in every position that is not set in ignore. As long as the
// claim exists, an entry that accepts any of them can be attached only if it names the
// claim (portals.Entry.Claim). Claims do not make matching slower.
//
// Claim returns ErrTaken if another claim has some of the values, if an attached entry
// accepts some of them, or if the portal is lazy; ErrExists if the portal has an inbox;
// ErrPortalClass if a unique entry was ever attached to the portal; ErrInvalid if the
// portal does not exist or is reserved for LNet; and ErrClosed.
func (n *Node) Claim(portal uint32, bits, ignore uint64) (*portals.Claim, error) {
	if err := n.checkOpen(); err != nil {
		return nil, fmt.Errorf("claim of portal %d: %w", portal, err)
	}
	if portal == lnet.ReservedPortal {
		return nil, fmt.Errorf("claim of portal %d: it is reserved for LNet: %w", portal, ErrInvalid)
	}
	if portal < lnet.Portals && !n.uses[portal].claim() {
		return nil, fmt.Errorf("claim of portal %d: it has an inbox: %w", portal, ErrExists)
	}
	c, err := n.table.Claim(portal, bits, ignore)
	if err != nil && portal < lnet.Portals {
		n.uses[portal].unclaim()
	}
	return c, err
}

// Unclaim ends the claim c, which Claim returned. Entries that were attached under the
// claim stay attached. Unclaim does nothing if c is nil or was ended already.
func (n *Node) Unclaim(c *portals.Claim) {
	if n.isMade() && c != nil && c.Release() {
		n.uses[c.Portal()].unclaim()
	}
}

// portalUse records which exclusive use a portal has: the number of claims on it, or
// inboxOpen if it has an inbox.
type portalUse struct{ claims atomic.Int32 }

const inboxOpen = -1

// open reserves the portal for an inbox. It returns false if the portal has an inbox or is
// claimed.
func (u *portalUse) open() bool { return u.claims.CompareAndSwap(0, inboxOpen) }

// claim adds one claim. It returns false if the portal has an inbox.
func (u *portalUse) claim() bool {
	for {
		n := u.claims.Load()
		if n == inboxOpen {
			return false
		}
		if u.claims.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (u *portalUse) close()        { u.claims.Store(0) }
func (u *portalUse) unclaim()      { u.claims.Add(-1) }
func (u *portalUse) isInbox() bool { return u.claims.Load() == inboxOpen }
