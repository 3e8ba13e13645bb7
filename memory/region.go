package memory

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Errors of regions.
var (
	// ErrInUse means that a descriptor names the region.
	ErrInUse = errors.New("in use")
	// ErrReleased means that the region was released.
	ErrReleased = errors.New("already released")
)

// Registrar is implemented by interfaces that move payload by RDMA. Memory that an
// application registers once then needs neither a copy nor a registration per message. Its
// dynamic type must be comparable, because a driver passes itself to find its registration.
type Registrar interface {
	// Register registers b with the device. It may block. It accepts parts of registered
	// memory, and the same memory twice. If it fails, messages use the driver's own buffers
	// instead.
	Register(b []byte) (Registration, error)
}

// Registration is a device's registration of memory. Each driver has its own type.
type Registration interface {
	// Release ends the registration. No message may be using the memory. It may block.
	// Closing an interface ends its remaining registrations when the last message that uses
	// them is complete. Release of a registration that ends this way does nothing.
	Release() error
}

// Region is memory that an application registers once with the interfaces of a node, for
// use by many messages. Node.Register creates a region. The memory must stay in place until
// Release has returned nil. All methods are safe for concurrent use.
type Region struct {
	segment       [1]Segment // the whole memory
	released      func()
	registrations atomic.Pointer[[]registration] // replaced as a whole; nil when the region has ended
	pins          atomic.Int64                   // number of descriptors; below 0 when the region has ended
	cpt           atomic.Int64                   // CPT plus 1; 0 if unknown
}

// registration is the registration of one interface.
type registration struct {
	registrar    Registrar
	registration Registration
}

// ended is the value that Region.pins counts from when the region has ended.
const ended = -1 << 62

// NewRegion returns a region of b that is not registered with any device. It is for owners
// of interfaces; programs use Node.Register. If released is not nil, it is called once,
// when Release has succeeded.
func NewRegion(b []byte, released func()) *Region {
	r := &Region{released: released}
	r.segment[0] = Segment{Bytes: b, region: r}
	r.registrations.Store(new([]registration))
	return r
}

// Bytes returns the memory.
func (r *Region) Bytes() []byte { return r.segment[0].Bytes }

// CPT returns the CPU partition nearest to the memory, or -1 if it is unknown.
func (r *Region) CPT() int { return int(r.cpt.Load()) - 1 }

// SetCPT sets the result of CPT. Like NewRegion, it is for owners of interfaces.
func (r *Region) SetCPT(cpt int) { r.cpt.Store(int64(max(cpt, -1)) + 1) }

// Segment returns the n bytes at offset off of r, for use in a vector. It panics if they
// are not within r.
func (r *Region) Segment(off, n int) Segment {
	return Segment{Bytes: r.segment[0].Bytes[off : off+n], region: r}
}

// Slice returns a vector of the n bytes at offset off of r. It does not allocate. It panics
// if they are not within r.
func (r *Region) Slice(off, n int) Vector {
	return Vector{Segments: r.segment[:], Length: len(r.segment[0].Bytes)}.Slice(off, n)
}

// Registration returns the registration of r with an interface. It returns nil if r is not
// registered there; the driver then uses its own buffers.
func (r *Region) Registration(by Registrar) Registration {
	if holds := r.registrations.Load(); holds != nil {
		for i := range *holds {
			if h := &(*holds)[i]; h.registrar == by {
				return h.registration
			}
		}
	}
	return nil
}

// Register registers r with an interface. It may block. The error is the driver's, or
// ErrReleased.
func (r *Region) Register(by Registrar) error {
	of, err := by.Register(r.Bytes())
	if err != nil {
		return err
	}
	for {
		old := r.registrations.Load()
		if old == nil {
			return errors.Join(ErrReleased, of.Release())
		}
		next := append(slices.Clip(*old), registration{by, of})
		if r.registrations.CompareAndSwap(old, &next) {
			return nil
		}
	}
}

// Deregister drops the registration of an interface that is closed.
func (r *Region) Deregister(by Registrar) {
	for {
		old := r.registrations.Load()
		if old == nil {
			return
		}
		next := slices.DeleteFunc(slices.Clone(*old), func(h registration) bool { return h.registrar == by })
		if len(next) == len(*old) || r.registrations.CompareAndSwap(old, &next) {
			return
		}
	}
}

// pin prevents r from being released until unpin. The error is ErrReleased.
func (r *Region) pin() error {
	for {
		n := r.pins.Load()
		if n < 0 {
			return ErrReleased
		}
		if r.pins.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (r *Region) unpin() { r.pins.Add(-1) }

// Release ends r: its memory is no longer registered with any device, and no descriptor can
// be made of it. The caller must have received the last event of each descriptor that uses
// it. Release returns ErrInUse, and does nothing, if such a descriptor remains. It returns
// ErrReleased if r has already ended. Any other error is a driver's, and r has ended
// nevertheless. Release may block, so a handler must not call it.
func (r *Region) Release() error {
	for !r.pins.CompareAndSwap(0, ended) {
		switch n := r.pins.Load(); { // 0: the last descriptor was released meanwhile
		case n > 0:
			return fmt.Errorf("release region: %d descriptors still use it: %w", n, ErrInUse)
		case n < 0:
			return fmt.Errorf("release region: %w", ErrReleased)
		}
	}
	holds := r.registrations.Swap(nil)
	if r.released != nil {
		r.released()
	}
	if holds == nil { // End was called meanwhile
		return nil
	}
	var errs []error
	for _, h := range *holds {
		errs = append(errs, h.registration.Release())
	}
	return errors.Join(errs...)
}

// End ends r without the program that registered it. All interfaces must be closed and the
// memory unused. A later Release does nothing and returns ErrReleased.
func (r *Region) End() {
	r.registrations.Store(nil)
	r.pins.Store(ended)
}
