package inproc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// engine is the part of a node that a Core uses. *node.Node implements it, and tests replace it.
type engine interface {
	PID() lnet.PID
	NIs() []node.NIInfo
	Register(ctx context.Context, b []byte) (*memory.Region, error)
	AtClose(f func()) (forget func())

	Claim(portal uint32, bits, ignore uint64) (*portals.Claim, error)
	Unclaim(c *portals.Claim)

	Attach(e portals.Entry, d portals.MD) (lnet.Handle, error)
	Bind(d portals.MD) (lnet.Handle, error)
	Put(h lnet.Handle, to lnet.ProcessID, o node.PutOptions) error
	Get(h lnet.Handle, to lnet.ProcessID, o node.GetOptions) error
	Unlink(h lnet.Handle) error
}

// Core is the transport.Core that uses a node in this process. New creates a Core. It is safe for concurrent
// use.
type Core struct {
	node      engine
	directory directory

	mu sync.Mutex // guards open
	// open assigns dynamic TM numbers, separately for each portal.
	open [lnet.Portals]transport.TMIDs
}

var _ transport.Core = (*Core)(nil)

// New creates a Core on a node. Closing the node remains the duty of the caller. When the node is closed, all
// TMs of the Core fail, and nothing can be done with their domains except to close them. Several Cores and
// other users may share a node. If two of them need the same match bits of a portal, the second one gets an
// error.
func New(n *node.Node) *Core { return newCore(n) }

func newCore(n engine) *Core { return &Core{node: n} }

// Name returns "lnet".
func (c *Core) Name() string { return "lnet" }

// Open implements transport.Core. It does not block.
func (c *Core) Open(ctx context.Context) (transport.CoreDomain, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &domain{core: c, buffers: make(map[*buffer]struct{}), tms: make(map[*tm]struct{})}
	forget := c.node.AtClose(d.abort)
	d.mu.Lock()
	d.unregisterAbort = forget
	d.mu.Unlock()
	return d, nil
}

// assignNumber assigns a number to a TM that is to start at address a, and claims the TM's match bits
// (transport 6.3). It returns EADDRINUSE, EADDRNOTAVAIL, or an error of the node.
func (c *Core) assignNumber(a transport.Address) (uint16, *portals.Claim, error) {
	if a.TMID != transport.Dynamic && (a.TMID == 0 || a.TMID > transport.MaxTMID) {
		return 0, nil, fmt.Errorf("TM number %d is not within 1 to %d: %w", a.TMID, transport.MaxTMID, syscall.EINVAL)
	}
	if a.Portal == lnet.ReservedPortal || a.Portal >= lnet.Portals {
		return 0, nil, fmt.Errorf("portal %d is not within 1 to %d: %w", a.Portal, lnet.Portals-1, syscall.EINVAL)
	}
	if a.TMID != transport.Dynamic {
		claim, err := c.claim(a.Portal, a.TMID)
		return a.TMID, claim, err
	}
	var claim *portals.Claim
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.open[a.Portal].Choose(func(id uint16) (_ bool, err error) {
		if c.directory.find(a.Portal, id) != nil { // cheaper than a claim, which is compared with every entry of the portal
			return false, nil
		}
		if claim, err = c.claim(a.Portal, id); errors.Is(err, portals.ErrTaken) {
			return false, nil
		}
		return err == nil, err
	})
	return id, claim, err
}

// claim claims the match bits of TM number id on a portal. If they are in use, or the portal is used in a way
// that is incompatible with TMs, it returns EADDRINUSE.
func (c *Core) claim(portal uint32, id uint16) (*portals.Claim, error) {
	claim, err := c.node.Claim(portal, uint64(transport.MakeMatchBits(id, 0)), transport.MaxCounter)
	switch {
	case err == nil:
		return claim, nil
	case errors.Is(err, portals.ErrTaken), errors.Is(err, node.ErrExists), errors.Is(err, portals.ErrPortalClass):
		return nil, &Error{Errno: syscall.EADDRINUSE, Err: err}
	}
	return nil, wrap(err)
}
