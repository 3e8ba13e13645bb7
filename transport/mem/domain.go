package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
)

var _ completion.Domain = (*domain)(nil)

// domain is a CoreDomain of a host.
type domain struct {
	host *host

	mu      sync.Mutex // guards the fields below
	areas   []*area    // memory of Alloc and Adopt, sorted by address
	buffers int
	tms     int
}

// area is memory that Alloc has mapped or that was passed to Adopt.
type area struct {
	memory  []byte
	adopted bool // passed to Adopt
	users   int  // number of segments of registered buffers in it
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (d *domain) Limits() transport.Limits {
	l := d.host.network.limits
	size := transport.DescriptorSize
	if slices.ContainsFunc(d.host.nids, lnet.NID.IsLarge) {
		size = transport.LargeDescriptorSize
	}
	setDefault(&l.DescriptorSize, size)
	return l
}

func (d *domain) NIDs(context.Context) ([]lnet.NID, error) {
	return append(slices.Clone(d.host.nids), lnet.LoopbackNID), nil
}

// Alloc creates a separate mapping for each call, so that out-of-bounds writes are likely to fault.
func (d *domain) Alloc(_ context.Context, n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("mem: allocate %d bytes: %w", n, syscall.EINVAL)
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mem: allocate %d bytes: %w", n, err)
	}
	d.addArea(&area{memory: b})
	return b, nil
}

// Adopt implements completion.Domain.
func (d *domain) Adopt(_ context.Context, b []byte) error {
	if page := syscall.Getpagesize(); len(b) == 0 || len(b)%page != 0 || address(b)%uintptr(page) != 0 {
		return fmt.Errorf("mem: adopt %d bytes: %w", len(b), syscall.EINVAL)
	}
	d.addArea(&area{memory: b, adopted: true})
	return nil
}

func (d *domain) addArea(a *area) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, _ := d.search(address(a.memory))
	d.areas = slices.Insert(d.areas, i, a)
}

// search returns the index of the area that begins at address at, and true. If no area begins there, it
// returns the index at which such an area would be inserted, and false. mu is held.
func (d *domain) search(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(d.areas, at, func(a *area, at uintptr) int {
		return cmp.Compare(address(a.memory), at)
	})
}

// areaOf returns the area that contains segment s, or nil. mu is held.
func (d *domain) areaOf(s []byte) *area {
	i, found := d.search(address(s))
	if !found {
		i--
	}
	if i < 0 || address(s) >= address(d.areas[i].memory)+uintptr(len(d.areas[i].memory)) {
		return nil
	}
	return d.areas[i]
}

func (d *domain) Free(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, found := d.search(address(b))
	switch {
	case !found || len(b) != len(d.areas[i].memory):
		return fmt.Errorf("mem: free memory that was not allocated: %w", syscall.EINVAL)
	case d.areas[i].users > 0:
		return fmt.Errorf("mem: free memory of a registered buffer: %w", syscall.EBUSY)
	}
	if !d.areas[i].adopted {
		if err := syscall.Munmap(d.areas[i].memory); err != nil {
			return fmt.Errorf("mem: free %d bytes: %w", len(b), err)
		}
	}
	d.areas = slices.Delete(d.areas, i, i+1)
	return nil
}

// Register implements transport.CoreDomain. It accepts any memory and never fails.
func (d *domain) Register(_ context.Context, segments [][]byte, token any) (transport.CoreBuffer, error) {
	b := &buffer{domain: d, segments: segments, token: token}
	for _, s := range segments {
		b.size += len(s)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addUsers(b, 1)
	return b, nil
}

// addUsers adds by, which is 1 or -1, to the number of buffers of the domain and to the users of b's areas.
// mu is held.
func (d *domain) addUsers(b *buffer, by int) {
	d.buffers += by
	for _, s := range b.segments {
		if a := d.areaOf(s); a != nil {
			a.users += by
		}
	}
}

func (d *domain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	q := completion.New(completions)
	t, err := d.start(ctx, a, completion.Outlet{Queue: q})
	if err != nil {
		return nil, err
	}
	return &queuedTM{tm: t, Queue: q}, nil
}

// StartTMTo implements completion.Domain.
func (d *domain) StartTMTo(ctx context.Context, a transport.Address, to completion.Sink) (completion.TM, error) {
	t, err := d.start(ctx, a, completion.Outlet{Sink: to})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (d *domain) start(ctx context.Context, a transport.Address, out completion.Outlet) (*tm, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if a.PID != lnet.PIDLustre || !a.NID.IsLoopback() && !slices.Contains(d.host.nids, a.NID) {
		return nil, fmt.Errorf("mem: start at %v, PID %v: the host does not have this address: %w", a.NID, a.PID, syscall.ENOENT)
	}
	t := &tm{out: out, domain: d, host: d.host, address: a}
	if err := d.host.register(t); err != nil {
		return nil, err
	}
	t.first = transport.RandomMatchBits(t.address.TMID)
	d.mu.Lock()
	d.tms++
	d.mu.Unlock()
	return t, nil
}

func (d *domain) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tms > 0 || d.buffers > 0 || len(d.areas) > 0 {
		return fmt.Errorf("mem: close domain: %d TMs, %d buffers and %d pieces of memory are still in use: %w",
			d.tms, d.buffers, len(d.areas), syscall.EBUSY)
	}
	return nil
}
