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
	ErrReleased = errors.New("released")
)

// Registrar is implemented by interfaces that move payload by RDMA: memory
// that an application registers once needs neither a copy nor a registration
// per message afterwards. Its dynamic type is comparable: a driver finds what it
// gave by naming itself.
type Registrar interface {
	// Register makes b known to the device. It may block, and registers part of
	// a memory as well as the same twice. An error is harmless: messages then go
	// through the driver's own pool.
	Register(b []byte) (Registration, error)
}

// Registration is a device's hold on memory, of the type that the driver makes.
type Registration interface {
	// Release ends the registration. No message may be using the memory. It may
	// block. Closing the interface ends all registrations that are left, when
	// the last message that used them is complete; to release one then, or
	// meanwhile, does nothing.
	Release() error
}

// Region is memory that an application registered with the interfaces of a
// node, once, to be used by many messages: Node.Register makes one. The memory
// must stay where it is until Release has returned nil. All methods are safe for
// concurrent use.
type Region struct {
	segment  [1]Segment // the whole, with the region itself
	released func()
	holds    atomic.Pointer[[]hold] // replaced whole; nil: the region has ended
	pins     atomic.Int64           // by descriptors; below 0: the region has ended
	cpt      atomic.Int64           // plus 1; 0: unknown
}

// hold is one interface's registration.
type hold struct {
	by Registrar
	of Registration
}

// ended is what Region.pins counts from when the region has ended.
const ended = -1 << 62

// NewRegion makes a region of b that no device knows. It is for those who own
// interfaces: programs have Node.Register. released, if it is not nil, is called
// once, when Release has succeeded.
func NewRegion(b []byte, released func()) *Region {
	r := &Region{released: released}
	r.segment[0] = Segment{Bytes: b, region: r}
	r.holds.Store(new([]hold))
	return r
}

// Bytes is the memory.
func (r *Region) Bytes() []byte { return r.segment[0].Bytes }

// CPT returns the CPU partition that the memory is next to, or -1 if that is not known.
func (r *Region) CPT() int { return int(r.cpt.Load()) - 1 }

// SetCPT sets what CPT returns. It is for owners of interfaces, as NewRegion is.
func (r *Region) SetCPT(cpt int) { r.cpt.Store(int64(max(cpt, -1)) + 1) }

// Segment returns the n bytes that begin off bytes into r, to be part of a
// vector. It panics if they do not lie within r.
func (r *Region) Segment(off, n int) Segment {
	return Segment{Bytes: r.segment[0].Bytes[off : off+n], region: r}
}

// Slice is a vector of the n bytes that begin off bytes into r; it allocates
// nothing. It panics if they do not lie within r.
func (r *Region) Slice(off, n int) Vector {
	return Vector{Segments: r.segment[:], Length: len(r.segment[0].Bytes)}.Slice(off, n)
}

// Registration returns what an interface has made of r, or nil: the driver then
// goes through a pool of its own.
func (r *Region) Registration(by Registrar) Registration {
	if holds := r.holds.Load(); holds != nil {
		for i := range *holds {
			if h := &(*holds)[i]; h.by == by {
				return h.of
			}
		}
	}
	return nil
}

// Register has an interface register r; it may block. The error is the driver's,
// or ErrReleased.
func (r *Region) Register(by Registrar) error {
	of, err := by.Register(r.Bytes())
	if err != nil {
		return err
	}
	for {
		old := r.holds.Load()
		if old == nil {
			return errors.Join(ErrReleased, of.Release())
		}
		next := append(slices.Clip(*old), hold{by, of})
		if r.holds.CompareAndSwap(old, &next) {
			return nil
		}
	}
}

// Forget drops the registration of an interface that is closed.
func (r *Region) Forget(by Registrar) {
	for {
		old := r.holds.Load()
		if old == nil {
			return
		}
		next := slices.DeleteFunc(slices.Clone(*old), func(h hold) bool { return h.by == by })
		if len(next) == len(*old) || r.holds.CompareAndSwap(old, &next) {
			return
		}
	}
}

// pin keeps r from being released until unpin. The error is ErrReleased.
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

// Release ends r: no device knows the memory any more, and no descriptor can be
// made of it. Who registered it must have seen the last event of each descriptor
// that names it; ErrInUse: there is one yet, and nothing has happened.
// ErrReleased: it has ended before. Another error is a driver's; r has ended all
// the same. Release may block: a handler must not call it.
func (r *Region) Release() error {
	for !r.pins.CompareAndSwap(0, ended) {
		switch n := r.pins.Load(); { // 0: the last descriptor has gone meanwhile
		case n > 0:
			return fmt.Errorf("region: named %d times: %w", n, ErrInUse)
		case n < 0:
			return fmt.Errorf("region: %w", ErrReleased)
		}
	}
	holds := r.holds.Swap(nil)
	if r.released != nil {
		r.released()
	}
	if holds == nil { // End was quicker
		return nil
	}
	var errs []error
	for _, h := range *holds {
		errs = append(errs, h.of.Release())
	}
	return errors.Join(errs...)
}

// End ends r without its program: all interfaces are closed, and nothing uses the
// memory. Release then has nothing to do, and returns ErrReleased.
func (r *Region) End() {
	r.holds.Store(nil)
	r.pins.Store(ended)
}
