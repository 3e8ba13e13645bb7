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

// Config is the configuration of a network.
type Config struct {
	// Strict reports errors where LNet loses data silently, on both sides if both are involved. A message
	// to a host or TM that does not exist fails with ENETUNREACH. To a TM without a receive buffer it fails
	// with ENOBUFS, and that TM gets an error event. If it is longer than the buffer's MinReceiveSize, it
	// fails with EMSGSIZE, and the receive buffer ends, too. Active bulk fails with ENOENT if there is no
	// passive buffer, with EPERM if the buffer is for the other direction, and with EFBIG if the sizes do
	// not match; the last case ends both buffers.
	Strict bool
	// Limits are the limits of all domains. A value of zero means that of LNet: 1 MiB, 256 segments of 4096
	// bytes, descriptors as long as the host's NIDs require. Confine and Synchronous are always set. Bulk
	// data is limited to 1 MiB in any case, because descriptors are.
	Limits transport.Limits
}

// The limits of LNet (transport 3.4).
const (
	bufferSize  = lnet.MTU
	segmentSize = 4096
	segments    = 256
)

// Network is a network in memory. New creates one; it need not be closed. Its methods are safe for
// concurrent use.
type Network struct {
	strict bool
	limits transport.Limits

	mu sync.Mutex // held to replace the map of hosts
	// hosts maps NIDs to opened hosts. The map is replaced, never modified.
	hosts atomic.Pointer[map[lnet.NID]*host]
}

// New creates a network without hosts.
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

// Host creates a host with the given NIDs, by which other hosts reach it. The host can also reach itself at
// 0@lo. Without NIDs it has only that. All domains on this Core share the host and its addresses. NewDomain
// returns EINVAL if a NID cannot belong to a host, and EADDRINUSE if another host has it.
func (n *Network) Host(nids ...lnet.NID) transport.Core {
	return &host{network: n, nids: slices.Clone(nids)}
}

// host is a Core.
type host struct {
	network *Network
	nids    []lnet.NID // without 0@lo

	mu sync.Mutex // held to change tms; guards open
	// open assigns dynamic numbers, by portal.
	open [lnet.Portals]transport.TMIDs
	// tms holds the started TMs by portal and number. These are unique on the host, because a message finds
	// its TM by them, regardless of the NID it was sent to (transport 6.4).
	tms [lnet.Portals]atomic.Pointer[portal]
}

// portal holds the TMs of one portal, by number.
type portal [transport.MaxTMID + 1]atomic.Pointer[tm]

func (h *host) Name() string { return "mem" }

// Open makes the host reachable for others, if it is not yet.
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

// find returns the host that h reaches by a NID, or nil.
func (h *host) find(nid lnet.NID) *host {
	if nid.IsLoopback() {
		return h
	}
	return (*h.network.hosts.Load())[nid]
}

// tm returns the TM with a number at a portal, or nil.
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

// register registers t at its address, after choosing a free number if that is Dynamic.
func (h *host) register(t *tm) error {
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

// unregister removes t from its address.
func (h *host) unregister(t *tm) { h.tms[t.address.Portal].Load()[t.address.TMID].Store(nil) }
