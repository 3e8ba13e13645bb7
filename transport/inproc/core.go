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

// engine is what a Core needs of a node. *node.Node is one.
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

// Core is a way to LNet by a node. New makes it. It is safe for concurrent use.
type Core struct {
	node engine
	book book

	mu sync.Mutex // guards open
	// open are the numbers that are chosen from, by portal.
	open [lnet.Portals]transport.TMIDs
}

var _ transport.Core = (*Core)(nil)

// New makes a Core over a node, which stays the caller's to close: that ends all TMs of
// the Core, and their domains can only be closed any more. Several Cores may be over one
// node, and others may use it: where they want the same match bits of a portal, who comes
// first has them.
func New(n *node.Node) *Core { return newCore(n) }

func newCore(n engine) *Core { return &Core{node: n} }

// Name is "lnet".
func (c *Core) Name() string { return "lnet" }

// Open makes what a domain stands on.
func (c *Core) Open(ctx context.Context) (transport.CoreDomain, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &domain{core: c, buffers: make(map[*buffer]struct{}), tms: make(map[*tm]struct{})}
	forget := c.node.AtClose(d.abort)
	d.mu.Lock()
	d.forget = forget
	d.mu.Unlock()
	return d, nil
}

// occupy gives a TM that shall start at a its number, and the match bits that go with it
// (transport 6.3). EADDRINUSE, EADDRNOTAVAIL; or what the node says.
func (c *Core) occupy(a transport.Address) (uint16, *portals.Claim, error) {
	if a.TMID != transport.Dynamic && (a.TMID == 0 || a.TMID > transport.MaxTMID) {
		return 0, nil, fmt.Errorf("number %d: %w", a.TMID, syscall.EINVAL)
	}
	if a.Portal == lnet.ReservedPortal || a.Portal >= lnet.Portals {
		return 0, nil, fmt.Errorf("portal %d: %w", a.Portal, syscall.EINVAL)
	}
	if a.TMID != transport.Dynamic {
		claim, err := c.claim(a.Portal, a.TMID)
		return a.TMID, claim, err
	}
	var claim *portals.Claim
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.open[a.Portal].Choose(func(id uint16) (_ bool, err error) {
		if c.book.find(a.Portal, id) != nil { // a claim looks at all that is on the portal
			return false, nil
		}
		if claim, err = c.claim(a.Portal, id); errors.Is(err, portals.ErrTaken) {
			return false, nil
		}
		return err == nil, err
	})
	return id, claim, err
}

// claim claims the match bits of a number. Whoever has a portal in a way that TMs cannot
// live with has the address in use.
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
