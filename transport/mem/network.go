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
	// Strict makes the network report an error where LNet loses data silently: to the sender, and to the
	// receiver if there is one. A message to a host or TM that does not exist fails with ENETUNREACH. A
	// message to a TM without a receive buffer fails with ENOBUFS, and that TM gets an error event. A message
	// that is longer than MinReceiveSize of the receive buffer fails with EMSGSIZE, and so does the receive
	// buffer. Active bulk fails with ENOENT if there is no passive buffer, with EPERM if the passive buffer
	// is for the other direction, and with EFBIG if the sizes do not match; in the last case the passive
	// buffer fails as well.
	Strict bool
	// Limits are the limits of all domains. A field of zero means the limit of LNet: 1 MiB, 256 segments of
	// 4096 bytes, descriptors as long as the host's NIDs require. Confine and Synchronous are always set.
	// Bulk data is limited to 1 MiB in any case, because descriptors do not permit more.
	Limits transport.Limits
}

// Limits of buffers over LNet (transport 3.4).
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

	mu sync.Mutex // held while the map of hosts is being replaced
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
// 0@lo. A host without NIDs can reach only itself. All domains on the returned Core share the host and its
// addresses. NewDomain returns EINVAL if a NID cannot belong to a host, and EADDRINUSE if another host has
// it.
func (n *Network) Host(nids ...lnet.NID) transport.Core {
	return &host{network: n, nids: slices.Clone(nids)}
}

// host is a Core: a host of a Network.
type host struct {
	network *Network
	nids    []lnet.NID // without 0@lo

	mu sync.Mutex // held while tms is changed; guards open
	// open assigns dynamic TM numbers, separately for each portal.
	open [lnet.Portals]transport.TMIDs
	// tms contains the started TMs by portal and number. This pair is unique on the host, because a message
	// finds its TM by it, regardless of the NID that the message was sent to (transport 6.4).
	tms [lnet.Portals]atomic.Pointer[portal]
}

// portal holds the TMs of one portal, by number.
type portal [transport.MaxTMID + 1]atomic.Pointer[tm]

func (h *host) Name() string { return "mem" }

// Open makes the host reachable for other hosts, if it is not reachable yet, and creates a domain on it.
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
			return fmt.Errorf("mem: NID %v: not a NID that a host can have: %w", nid, syscall.EINVAL)
		case o != nil && o != h:
			return fmt.Errorf("mem: NID %v belongs to another host: %w", nid, syscall.EADDRINUSE)
		}
		hosts[nid] = h
	}
	n.hosts.Store(&hosts)
	return nil
}

// find returns the host with the given NID as h reaches it, or nil. 0@lo is h itself.
func (h *host) find(nid lnet.NID) *host {
	if nid.IsLoopback() {
		return h
	}
	return (*h.network.hosts.Load())[nid]
}

// tm returns the TM with the given portal and number, or nil.
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

// register makes t reachable at its address. If the TM number is Dynamic, it first chooses a free one.
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
		return fmt.Errorf("mem: start at portal %d: no TM number is free: %w", a.Portal, err)
	}
	a.TMID = id
	p[id].Store(t)
	return nil
}

// unregister makes the address of t free.
func (h *host) unregister(t *tm) { h.tms[t.address.Portal].Load()[t.address.TMID].Store(nil) }
