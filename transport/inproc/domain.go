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
	// large says that a local NID was a large one, or is.
	large atomic.Bool

	mu      sync.Mutex // guards the rest
	areas   []*area    // what Alloc gave, by address
	buffers map[*buffer]struct{}
	tms     map[*tm]struct{}
	forget  func() // the node shall not call abort any more
	down    bool   // the node closes
}

// The limits of LNet (transport 3.4), which are those of Motr in the kernel: a program
// that was sized for one fits the other.
const (
	segmentSize = 4096
	segments    = 256
)

// Limits are LNet's. Descriptors are longer from when the node has a large NID on: TMs there
// outlive its NI.
func (d *domain) Limits() transport.Limits {
	l := transport.Limits{
		BufferSize: lnet.MTU, SegmentSize: segmentSize, Segments: segments,
		DescriptorSize: transport.DescriptorSize, Confine: true, Synchronous: true,
	}
	if d.large.Load() || slices.ContainsFunc(d.core.node.NIs(), func(i node.NIInfo) bool { return i.NID.IsLarge() }) {
		d.large.Store(true)
		l.DescriptorSize = transport.LargeDescriptorSize
	}
	return l
}

// NIDs are those of the node's NIs, 0@lo first.
func (d *domain) NIDs(context.Context) ([]lnet.NID, error) {
	nis := d.core.node.NIs()
	nids := make([]lnet.NID, len(nis))
	for i := range nis {
		nids[i] = nis[i].NID
	}
	return nids, nil
}

// local tells whether a process is this node.
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

// StartTM does not block.
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
		return fail(fmt.Errorf("not this node, which has PID %d: %w", d.core.node.PID(), syscall.ENOENT))
	}
	id, claim, err := d.core.occupy(a)
	if err != nil {
		return fail(err)
	}
	a.TMID = id
	if a.NID.IsLarge() {
		d.large.Store(true)
	}
	t := &tm{
		domain: d, address: a, claim: claim, out: out,
		bits: uint64(transport.MakeMatchBits(id, 0)), first: transport.RandomMatchBits(id), hdrData: uint64(transport.MakeHdrData(a)),
	}
	d.mu.Lock()
	down := d.down
	if !down {
		d.tms[t] = struct{}{}
	}
	d.mu.Unlock()
	if down {
		d.core.node.Unclaim(claim)
		return fail(errDown)
	}
	d.core.book.enter(t)
	return t, nil
}

// abort ends what is under way, since the node closes.
func (d *domain) abort() {
	d.mu.Lock()
	d.down = true
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
		t.down.Store(true)
	}
	for _, b := range buffers {
		b.abort()
	}
	for _, t := range tms {
		t.account(0)
	}
}

// Close ends the domain. EBUSY: it has TMs, buffers or memory yet.
func (d *domain) Close() error {
	d.mu.Lock()
	tms, buffers, areas := len(d.tms), len(d.buffers), len(d.areas)
	forget := d.forget
	d.mu.Unlock()
	if tms > 0 || buffers > 0 || areas > 0 {
		return fmt.Errorf("inproc: close a domain with %d TMs, %d buffers, %d pieces of memory: %w",
			tms, buffers, areas, syscall.EBUSY)
	}
	forget()
	return nil
}
