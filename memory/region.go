package memory

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Errors of regions.
var (
	// ErrInUse means that a memory descriptor still uses the region.
	ErrInUse = errors.New("in use")
	// ErrReleased means that the region was released.
	ErrReleased = errors.New("already released")
)

// Registrar is implemented by driver interfaces that move payload by RDMA. If an application
// registers memory once, they need neither a copy nor a registration for each message. The
// dynamic type of a Registrar must be comparable, because a driver passes itself to
// Region.Registration to find its registration.
type Registrar interface {
	// Register registers b with the device. It may block. It must accept a part of memory that
	// is registered, and the same memory twice. If it fails, the driver copies the payload of
	// messages in this memory through its own buffers.
	Register(b []byte) (Registration, error)
}

// Registration is the registration of memory with a device. Each driver implements it.
type Registration interface {
	// Release ends the registration. It may block. The caller ensures that no message is using
	// the memory. When an interface is closed, its remaining registrations end by themselves
	// as soon as the last message that uses them is complete; Release then does nothing.
	Release() error
}

// Region is memory that an application registers once with the interfaces of a node, so that
// many messages can use it. Node.Register creates a region. The memory must not be moved or
// unmapped until Release has returned nil. All methods are safe for concurrent use.
type Region struct {
	segment       [1]Segment                     // the whole memory
	released      func()                         // called when Release has succeeded; may be nil
	registrations atomic.Pointer[[]registration] // replaced as a whole; nil when the region has ended
	pins          atomic.Int64                   // number of descriptors that use the region; negative when it has ended
	cpt           atomic.Int64                   // CPT plus 1; 0 if unknown
}

// registration is the registration of a region with one interface.
type registration struct {
	registrar    Registrar
	registration Registration
}

// ended is the value of Region.pins when the region has ended. It is so low that later calls
// of unpin leave it negative.
const ended = -1 << 62

// NewRegion returns a region of b that is not registered with any interface. It is meant for
// nodes; programs use Node.Register. If released is not nil, it is called once, when
// Release has succeeded.
func NewRegion(b []byte, released func()) *Region {
	r := &Region{released: released}
	r.segment[0] = Segment{Bytes: b, region: r}
	r.registrations.Store(new([]registration))
	return r
}

// Bytes returns the memory of the region.
func (r *Region) Bytes() []byte { return r.segment[0].Bytes }

// CPT returns the CPU partition nearest to the memory, or -1 if it is unknown.
func (r *Region) CPT() int { return int(r.cpt.Load()) - 1 }

// SetCPT sets the result of CPT. Like NewRegion, it is meant for nodes.
func (r *Region) SetCPT(cpt int) { r.cpt.Store(int64(max(cpt, -1)) + 1) }

// Segment returns the n bytes at offset off of r as a Segment of a Vector. It panics if
// these bytes are not within r.
func (r *Region) Segment(off, n int) Segment {
	return Segment{Bytes: r.segment[0].Bytes[off : off+n], region: r}
}

// Slice returns the n bytes at offset off of r as a Vector. It does not allocate. It panics
// if these bytes are not within r.
func (r *Region) Slice(off, n int) Vector {
	return Vector{Segments: r.segment[:], Length: len(r.segment[0].Bytes)}.Slice(off, n)
}

// Registration returns the registration of r with an interface. It returns nil if r is not
// registered with this interface, which then uses its own buffers.
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

// Register registers r with an interface. It may block. It returns the error of the
// interface, or ErrReleased if r has ended.
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

// Deregister removes the registration of r with an interface that is closed. It does not
// release the registration, because closing the interface does that.
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

// pin prevents Release from succeeding until unpin is called. It returns ErrReleased if r
// has ended.
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

// Release ends r: its memory is no longer registered with any interface, and no descriptor
// can be created with it. The caller must have received the last event of each descriptor
// that uses r. If there is still such a descriptor, Release returns ErrInUse and does
// nothing. It returns ErrReleased if r has already ended. Any other error is that of an
// interface; r has ended nevertheless. Release may block, so a handler must not call it.
func (r *Region) Release() error {
	for !r.pins.CompareAndSwap(0, ended) {
		switch n := r.pins.Load(); { // if n is 0, the last descriptor was released in between: try again
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
	if holds == nil { // End was called in between
		return nil
	}
	var errs []error
	for _, h := range *holds {
		errs = append(errs, h.registration.Release())
	}
	return errors.Join(errs...)
}

// End ends r on behalf of its node, without the program that registered it. All interfaces
// must be closed and the memory unused. After that, Release does nothing and returns
// ErrReleased.
func (r *Region) End() {
	r.registrations.Store(nil)
	r.pins.Store(ended)
}
