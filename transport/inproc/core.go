package inproc

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
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

	mu sync.Mutex // guards ids
	// ids are the numbers of this Core's TMs, by portal.
	ids [lnet.Portals]*idSet
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

// idSet is a set of numbers of TMs: bit n of word k is number 64k+n.
type idSet [(transport.MaxTMID + 1) / 64]uint64

func (s *idSet) add(id uint16)    { s[id/64] |= 1 << (id % 64) }
func (s *idSet) remove(id uint16) { s[id/64] &^= 1 << (id % 64) }

// below is the highest number under limit that is not in the set, and greater than 0; 0
// if there is none.
func (s *idSet) below(limit uint16) uint16 {
	top := int(limit) - 1
	for k := top / 64; k >= 0; k-- {
		free := ^s[k]
		if k == top/64 {
			free &= ^uint64(0) >> (63 - top%64)
		}
		if k == 0 {
			free &^= 1
		}
		if free != 0 {
			return uint16(64*k + bits.Len64(free) - 1)
		}
	}
	return 0
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
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.ids[a.Portal]
	if ids == nil {
		ids = new(idSet)
		c.ids[a.Portal] = ids
	}
	if a.TMID != transport.Dynamic {
		claim, err := c.claim(a.Portal, a.TMID)
		if err != nil {
			return 0, nil, err
		}
		ids.add(a.TMID)
		return a.TMID, claim, nil
	}
	for id := ids.below(transport.MaxTMID + 1); id > 0; id = ids.below(id) {
		switch claim, err := c.claim(a.Portal, id); {
		case err == nil:
			ids.add(id)
			return id, claim, nil
		case !errors.Is(err, portals.ErrTaken):
			return 0, nil, err
		}
	}
	return 0, nil, syscall.EADDRNOTAVAIL
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

// vacate gives back what occupy gave.
func (c *Core) vacate(claim *portals.Claim, id uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node.Unclaim(claim)
	c.ids[claim.Portal()].remove(id)
}
