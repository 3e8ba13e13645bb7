package inproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport"
)

// area is memory that Alloc has mapped or that was passed to Adopt. It is registered with the node once, and
// the buffers in it share this registration.
type area struct {
	bytes   []byte // the mapped memory, whole pages
	length  int    // length that was requested
	adopted bool   // passed to Adopt
	region  *memory.Region
	users   int // number of segments of registered buffers in it
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Alloc maps anonymous memory and registers it with the node. It waits while the node's configuration is
// being changed.
func (d *domain) Alloc(ctx context.Context, n int) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("inproc: allocate %d bytes: %w", n, err) }
	page := os.Getpagesize()
	if n <= 0 || n > 1<<40 {
		return fail(syscall.EINVAL)
	}
	b, err := unix.Mmap(-1, 0, (n+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fail(err)
	}
	r, err := d.core.node.Register(ctx, b)
	if err != nil {
		_ = unix.Munmap(b) // the mapping exists, so this cannot fail
		return fail(wrap(err))
	}
	d.addArea(&area{bytes: b, length: n, region: r})
	return b[:n:n], nil
}

// Adopt implements completion.Domain. It waits while the node's configuration is being changed.
func (d *domain) Adopt(ctx context.Context, b []byte) error {
	fail := func(err error) error { return fmt.Errorf("inproc: adopt %d bytes: %w", len(b), err) }
	page := os.Getpagesize()
	if len(b) == 0 || len(b)%page != 0 || address(b)%uintptr(page) != 0 {
		return fail(syscall.EINVAL)
	}
	r, err := d.core.node.Register(ctx, b)
	if err != nil {
		return fail(wrap(err))
	}
	d.addArea(&area{bytes: b, length: len(b), adopted: true, region: r})
	return nil
}

// Free reverts Alloc or Adopt. It returns EINVAL if b was not returned by Alloc or passed to Adopt, and EBUSY
// if a buffer in b is registered. After any other error, the caller can call Free again.
func (d *domain) Free(b []byte) error {
	a, err := d.removeArea(b)
	if err == nil {
		if err = a.free(); err != nil {
			d.addArea(a)
		}
	}
	if err != nil {
		return fmt.Errorf("inproc: free %d bytes: %w", len(b), err)
	}
	return nil
}

// free releases the region of an area and, unless it was adopted, unmaps its memory. After an error it can be
// called again.
func (a *area) free() error {
	if err := release(a.region); err != nil || a.adopted {
		return err
	}
	return unix.Munmap(a.bytes)
}

// addArea adds an area to d.areas.
func (d *domain) addArea(a *area) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, _ := d.search(address(a.bytes))
	d.areas = slices.Insert(d.areas, i, a)
}

// removeArea removes the area with memory b from d.areas and returns it. It returns EINVAL if no area has
// this memory, and EBUSY if a registered buffer uses the area.
func (d *domain) removeArea(b []byte) (*area, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, found := d.search(address(b))
	if !found || len(b) != d.areas[i].length {
		return nil, syscall.EINVAL
	}
	a := d.areas[i]
	if a.users > 0 {
		return nil, syscall.EBUSY
	}
	d.areas = slices.Delete(d.areas, i, i+1)
	return a, nil
}

// search returns the index of the area that begins at address at, and true. If no area begins there, it
// returns the index at which such an area would be inserted, and false. mu is held.
func (d *domain) search(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(d.areas, at, func(a *area, at uintptr) int {
		return cmp.Compare(address(a.bytes), at)
	})
}

// areaOf returns the area that contains segment s, or nil. mu is held.
func (d *domain) areaOf(s []byte) *area {
	i, found := d.search(address(s))
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	a := d.areas[i]
	if address(s)+uintptr(len(s)) > address(a.bytes)+uintptr(len(a.bytes)) {
		return nil
	}
	return a
}

// Register registers memory of any kind with the node's devices. Unless all memory is from Alloc, it waits
// while the node's configuration is being changed.
func (d *domain) Register(ctx context.Context, segments [][]byte, token any) (transport.CoreBuffer, error) {
	b := &buffer{domain: d, token: token, handle: lnet.NoHandle}
	if err := b.registerSegments(ctx, segments); err != nil {
		return nil, fmt.Errorf("inproc: register %d segments: %w", len(segments), err)
	}
	return b, nil
}

func (b *buffer) registerSegments(ctx context.Context, segments [][]byte) error {
	if len(segments) > lnet.MaxFragments {
		return syscall.EFBIG
	}
	d := b.domain
	areas, err := d.addBuffer(b, segments)
	if err != nil {
		return err
	}
	list := make([]memory.Segment, len(segments))
	for i, s := range segments {
		b.memory.Length += len(s)
		if a := areas[i]; a != nil {
			list[i] = a.region.Segment(int(address(s)-address(a.bytes)), len(s))
			continue
		}
		r, err := d.core.node.Register(ctx, s)
		if err != nil {
			err = errors.Join(wrap(err), b.releaseRegions())
			b.removeFromDomain()
			return err
		}
		b.regions = append(b.regions, r)
		list[i] = r.Segment(0, len(s))
	}
	b.memory.Segments = list
	return nil
}

// addBuffer adds b to the domain. For each segment it returns the area that contains it, or nil if the
// segment is in other memory. The areas cannot be freed while b uses them.
func (d *domain) addBuffer(b *buffer, segments [][]byte) ([]*area, error) {
	areas := make([]*area, len(segments))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return nil, errDown
	}
	for i, s := range segments {
		if a := d.areaOf(s); a != nil {
			areas[i] = a
			a.users++
			b.areas = append(b.areas, a)
		}
	}
	d.buffers[b] = struct{}{}
	return areas, nil
}

// releaseRegions releases the regions of b. Regions that cannot be released stay in b.regions.
func (b *buffer) releaseRegions() error {
	var errs []error
	b.regions = slices.DeleteFunc(b.regions, func(r *memory.Region) bool {
		err := release(r)
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// removeFromDomain removes b from the domain, and from the users of its areas.
func (b *buffer) removeFromDomain() {
	d := b.domain
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range b.areas {
		a.users--
	}
	delete(d.buffers, b)
	b.areas = nil
}

// release releases a region. It returns nil if closing the node has released the region already.
func release(r *memory.Region) error {
	err := r.Release()
	switch {
	case errors.Is(err, memory.ErrReleased):
		return nil
	case errors.Is(err, memory.ErrInUse):
		return &Error{Errno: syscall.EBUSY, Err: err}
	}
	return wrap(err)
}

// Deregister implements transport.CoreBuffer. It returns EBUSY if an op on the buffer is in progress, and
// EINVAL if the buffer is deregistered already. It may wait for drivers. If a driver returns an error,
// Deregister can be called again.
func (b *buffer) Deregister() error {
	err := b.markDeregistered()
	if err == nil {
		if err = b.releaseRegions(); err == nil {
			b.removeFromDomain()
			return nil
		}
		b.mu.Lock()
		b.deregistered = false
		b.mu.Unlock()
	}
	return fmt.Errorf("inproc: deregister: %w", err)
}

// markDeregistered makes b refuse new ops. It returns EINVAL if b is deregistered already, and EBUSY if an op
// is in progress.
func (b *buffer) markDeregistered() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.deregistered:
		return syscall.EINVAL
	case b.tm != nil:
		return syscall.EBUSY
	}
	b.deregistered = true
	return nil
}
