package inproc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
)

var _ completion.Domain = (*domain)(nil)

// domain is a CoreDomain of a Core.
type domain struct {
	core *Core
	// hasLargeNID is set once the node has or had a large NID.
	hasLargeNID atomic.Bool

	mu              sync.Mutex // guards the fields below
	areas           []*area    // memory of Alloc and Adopt, sorted by address
	buffers         map[*buffer]struct{}
	tms             map[*tm]struct{}
	unregisterAbort func() // unregisters abort from the node
	closing         bool   // the node is closing
}

// Limits of buffers over LNet (transport 3.4). They equal those of Motr in the kernel, so that a program with
// buffers for one of the two can also use the other.
const (
	segmentSize = 4096
	segments    = 256
)

// Limits returns the limits of LNet. DescriptorSize grows when the node gets a large NID, and never shrinks,
// because TMs can outlive the NI.
func (d *domain) Limits() transport.Limits {
	l := transport.Limits{
		BufferSize: lnet.MTU, SegmentSize: segmentSize, Segments: segments,
		DescriptorSize: transport.DescriptorSize, Confine: true, Synchronous: true,
	}
	if d.hasLargeNID.Load() || slices.ContainsFunc(d.core.node.NIs(), func(i node.NIInfo) bool { return i.NID.IsLarge() }) {
		d.hasLargeNID.Store(true)
		l.DescriptorSize = transport.LargeDescriptorSize
	}
	return l
}

// NIDs returns the NIDs of the node's NIs, 0@lo first.
func (d *domain) NIDs(context.Context) ([]lnet.NID, error) {
	nis := d.core.node.NIs()
	nids := make([]lnet.NID, len(nis))
	for i := range nis {
		nids[i] = nis[i].NID
	}
	return nids, nil
}

// local reports whether nid and pid identify this node.
func (d *domain) local(nid lnet.NID, pid lnet.PID) bool {
	if pid != d.core.node.PID() {
		return false
	}
	nis := d.core.node.NIs()
	for i := range nis {
		if nis[i].NID == nid {
			return true
		}
	}
	return false
}

// StartTM implements transport.CoreDomain. It does not block.
func (d *domain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	q := completion.New(completions)
	t, err := d.start(ctx, a, completion.Outlet{Queue: q})
	if err != nil {
		return nil, err
	}
	return &queuedTM{tm: t, Queue: q}, nil
}

// StartTMTo implements completion.Domain. It does not block.
func (d *domain) StartTMTo(ctx context.Context, a transport.Address, to completion.Sink) (completion.TM, error) {
	t, err := d.start(ctx, a, completion.Outlet{Sink: to})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (d *domain) start(ctx context.Context, a transport.Address, out completion.Outlet) (*tm, error) {
	fail := func(err error) (*tm, error) {
		return nil, fmt.Errorf("inproc: start at %s: %w", a, err)
	}
	if err := ctx.Err(); err != nil {
		return fail(wrap(err))
	}
	if !d.local(a.NID, a.PID) {
		return fail(fmt.Errorf("the address does not belong to this node, which has PID %d: %w", d.core.node.PID(), syscall.ENOENT))
	}
	id, claim, err := d.core.assignNumber(a)
	if err != nil {
		return fail(err)
	}
	a.TMID = id
	if a.NID.IsLarge() {
		d.hasLargeNID.Store(true)
	}
	t := &tm{
		domain: d, address: a, claim: claim, outlet: out,
		bits: uint64(transport.MakeMatchBits(id, 0)), firstBits: transport.RandomMatchBits(id), hdrData: uint64(transport.MakeHdrData(a)),
	}
	d.mu.Lock()
	down := d.closing
	if !down {
		d.tms[t] = struct{}{}
	}
	d.mu.Unlock()
	if down {
		d.core.node.Unclaim(claim)
		return fail(errDown)
	}
	d.core.directory.add(t)
	return t, nil
}

// abort cancels all operations and makes all TMs fail, because the node is closing.
func (d *domain) abort() {
	d.mu.Lock()
	d.closing = true
	tms := make([]*tm, 0, len(d.tms))
	for t := range d.tms {
		tms = append(tms, t)
	}
	buffers := make([]*buffer, 0, len(d.buffers))
	for b := range d.buffers {
		buffers = append(buffers, b)
	}
	d.mu.Unlock()
	for _, t := range tms {
		t.closing.Store(true)
	}
	for _, b := range buffers {
		b.abort()
	}
	for _, t := range tms {
		t.addOps(0)
	}
}

// Close closes the domain. It returns EBUSY if the domain still has TMs, buffers or memory.
func (d *domain) Close() error {
	d.mu.Lock()
	tms, buffers, areas := len(d.tms), len(d.buffers), len(d.areas)
	forget := d.unregisterAbort
	d.mu.Unlock()
	if tms > 0 || buffers > 0 || areas > 0 {
		return fmt.Errorf("inproc: close domain: %d TMs, %d buffers and %d pieces of memory are still in use: %w",
			tms, buffers, areas, syscall.EBUSY)
	}
	forget()
	return nil
}
