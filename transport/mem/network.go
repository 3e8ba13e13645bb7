package mem

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// Config says how a network is.
type Config struct {
	// Strict has ops that go wrong say so, on both sides where both are concerned, when
	// LNet would lose them in silence: a message to a host or a TM that there is not is
	// ENETUNREACH; to a TM without a receive buffer ENOBUFS, and an error event for that
	// TM; one longer than the buffer's MinReceiveSize EMSGSIZE, which ends the buffer, too;
	// active bulk for which there is no passive buffer ENOENT, for one of the other
	// direction EPERM, and of another size EFBIG, which ends both.
	Strict bool
	// Limits are those of all domains; a size or number that is zero is as with LNet: 1 MiB,
	// 256 segments of 4096 bytes, descriptors as long as the host's NIDs demand. Confine and
	// Synchronous are always set. Bulk ends at 1 MiB all the same, since descriptors do.
	Limits transport.Limits
}

// The limits of LNet (transport 3.4).
const (
	bufferSize  = lnet.MTU
	segmentSize = 4096
	segments    = 256
)

// Network is a network in memory. New makes it; there is nothing to close. Its methods are
// safe for concurrent use.
type Network struct {
	strict bool
	limits transport.Limits

	mu sync.Mutex // held by who replaces hosts
	// hosts are those that were opened, by NID. The map is never changed.
	hosts atomic.Pointer[map[lnet.NID]*host]
}

// New makes a network without hosts.
func New(c Config) *Network {
	n := &Network{strict: c.Strict, limits: c.Limits}
	l := &n.limits
	setDefault(&l.BufferSize, bufferSize)
	setDefault(&l.SegmentSize, segmentSize)
	setDefault(&l.Segments, segments)
	l.Confine, l.Synchronous = true, true
	n.hosts.Store(&map[lnet.NID]*host{})
	return n
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// Host makes a host with NIDs of its own, by which the others reach it; besides, it is
// 0@lo to itself, and with no others it has just that. Each Domain that stands on the
// Core belongs to the host: what it can start is shared by all of them. EINVAL of
// NewDomain says that a NID cannot be a host's, EADDRINUSE that another host has it.
func (n *Network) Host(nids ...lnet.NID) transport.Core {
	return &host{network: n, nids: slices.Clone(nids)}
}

// host is a Core.
type host struct {
	network *Network
	nids    []lnet.NID // without 0@lo

	mu sync.Mutex // held by who changes tms; guards open
	// open are the numbers that are chosen from, by portal.
	open [lnet.Portals]transport.TMIDs
	// tms are the started TMs by portal and number: a message finds its TM by them, by
	// whichever NID it has come (transport 6.4), so they are unique on the host.
	tms [lnet.Portals]atomic.Pointer[portal]
}

// portal has the TMs of one portal, by number.
type portal [transport.MaxTMID + 1]atomic.Pointer[tm]

func (h *host) Name() string { return "mem" }

// Open makes the host known to the others, if it is not yet.
func (h *host) Open(ctx context.Context) (transport.CoreDomain, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := h.network.join(h); err != nil {
		return nil, err
	}
	return &domain{host: h}, nil
}

func (n *Network) join(h *host) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	hosts := make(map[lnet.NID]*host)
	for nid, o := range *n.hosts.Load() {
		hosts[nid] = o
	}
	for _, nid := range h.nids {
		switch o := hosts[nid]; {
		case nid.IsZero() || nid.IsAny() || nid.IsLoopback():
			return fmt.Errorf("mem: NID %v of a host: %w", nid, syscall.EINVAL)
		case o != nil && o != h:
			return fmt.Errorf("mem: NID %v is another host's: %w", nid, syscall.EADDRINUSE)
		}
		hosts[nid] = h
	}
	n.hosts.Store(&hosts)
	return nil
}

// find returns the host that a NID stands for at h, nil if there is none.
func (h *host) find(nid lnet.NID) *host {
	if nid.IsLoopback() {
		return h
	}
	return (*h.network.hosts.Load())[nid]
}

// tm returns the TM with a number at a portal, nil if there is none.
func (h *host) tm(at uint32, id uint16) *tm {
	if at >= lnet.Portals || id > transport.MaxTMID {
		return nil
	}
	p := h.tms[at].Load()
	if p == nil {
		return nil
	}
	return p[id].Load()
}

// occupy puts t at its address, or at a number that is free.
func (h *host) occupy(t *tm) error {
	a := &t.address
	if a.Portal == lnet.ReservedPortal || a.Portal >= lnet.Portals || a.TMID == 0 || a.TMID > transport.Dynamic {
		return fmt.Errorf("mem: start at portal %d, TM %d: %w", a.Portal, a.TMID, syscall.EINVAL)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.tms[a.Portal].Load()
	if p == nil {
		p = new(portal)
		h.tms[a.Portal].Store(p)
	}
	if a.TMID != transport.Dynamic {
		if p[a.TMID].Load() != nil {
			return fmt.Errorf("mem: start at portal %d, TM %d: %w", a.Portal, a.TMID, syscall.EADDRINUSE)
		}
		p[a.TMID].Store(t)
		return nil
	}
	id, err := h.open[a.Portal].Choose(func(id uint16) (bool, error) { return p[id].Load() == nil, nil })
	if err != nil {
		return fmt.Errorf("mem: start at portal %d: no number is free: %w", a.Portal, err)
	}
	a.TMID = id
	p[id].Store(t)
	return nil
}

// vacate takes t from its address.
func (h *host) vacate(t *tm) { h.tms[t.address.Portal].Load()[t.address.TMID].Store(nil) }
