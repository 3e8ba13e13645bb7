package node

import (
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Claim gives the caller match bits of a portal, those that equal bits but where ignore
// has ones, until Unclaim: entries that take some of them are attached under the claim
// (portals.Entry.Claim) or not at all. It costs messages nothing. ErrTaken: somebody
// has claimed some of them, an entry takes some, or the portal is lazy; ErrExists: the
// portal has an inbox; ErrPortalClass: it has had unique entries; ErrInvalid: it is
// LNet's own, or there is none; ErrClosed.
func (n *Node) Claim(portal uint32, bits, ignore uint64) (*portals.Claim, error) {
	if err := n.takes(); err != nil {
		return nil, fmt.Errorf("claim of portal %d: %w", portal, err)
	}
	if portal == lnet.ReservedPortal {
		return nil, fmt.Errorf("claim of portal %d: it is LNet's own: %w", portal, ErrInvalid)
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

// Unclaim ends a claim of Node.Claim's; a second time, or with nil, it does nothing.
// Entries under it that are left go on without.
func (n *Node) Unclaim(c *portals.Claim) {
	if n.made(); c != nil && c.Release() {
		n.uses[c.Portal()].unclaim()
	}
}

// portalUse says who has a portal, or parts of it, to himself: how many claims there
// are, or inboxOpen.
type portalUse struct{ claims atomic.Int32 }

const inboxOpen = -1

// open takes the portal for an inbox, claim for one more claim; false: it is taken.
func (u *portalUse) open() bool { return u.claims.CompareAndSwap(0, inboxOpen) }

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
