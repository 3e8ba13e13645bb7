package rdma

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/lnetd/lnetd/memory"
)

// device is one interface's hardware: the memory that it may access, and the pool that the driver has
// registered for everything else. It is guarded by the fabric's lock.
type device struct {
	fabric  *Fabric
	closed  bool
	regions map[*registration]struct{} // of programs
	pool    [32][]*registration        // free ones, by the logarithm of their size
	lent    int                        // buffers of the pool in use
}

// registration is memory that a device may access.
type registration struct {
	device *device
	bytes  []byte
	uses   int // messages in progress that use it
	ended  bool
}

// piece is contiguous memory for a device to access, and the registration that allows it.
type piece struct {
	bytes []byte
	by    *registration
}

// buffer is the memory of a message from the device's point of view: the program's own, or a copy in the
// driver's pool.
type buffer struct {
	pieces []piece
	bounce *registration // nil: the memory itself
	memory memory.Vector
}

func (d *device) register(b []byte) *registration {
	r := &registration{device: d, bytes: b}
	d.regions[r] = struct{}{}
	return r
}

// Release implements memory.Registration.
func (r *registration) Release() error {
	f := r.device.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.ended {
		return nil
	}
	if r.uses > 0 {
		f.violated("memory of %d bytes is released while %d messages use it", len(r.bytes), r.uses)
	}
	r.ended = true
	delete(r.device.regions, r)
	return nil
}

// borrow allocates n bytes from the pool.
func (d *device) borrow(n int) *registration {
	class := bits.Len(uint(max(n, 1) - 1))
	free := d.pool[class]
	d.lent++
	if k := len(free) - 1; k >= 0 {
		d.pool[class] = free[:k]
		return free[k]
	}
	return &registration{device: d, bytes: make([]byte, 1<<class)}
}

func (d *device) giveBack(r *registration) {
	class := bits.Len(uint(len(r.bytes) - 1))
	d.pool[class] = append(d.pool[class], r)
	d.lent--
}

// buffer prepares memory for the device. It returns the memory itself if all of it is registered with
// this interface, and otherwise a buffer of the pool.
func (i *Interface) buffer(v memory.Vector) buffer {
	b := buffer{memory: v}
	if v.Length == 0 {
		return b
	}
	for _, s := range v.AppendSegments(nil) {
		r, ok := s.Registration(i).(*registration)
		if !ok {
			b.bounce = i.device.borrow(v.Length)
			b.pieces = []piece{{b.bounce.bytes[:v.Length], b.bounce}}
			i.counters.bounced++
			return b
		}
		b.pieces = append(b.pieces, piece{s.Bytes, r})
	}
	for _, p := range b.pieces {
		p.by.uses++
	}
	i.counters.direct++
	return b
}

// release ends the device's use of a buffer.
func (b *buffer) release() {
	switch {
	case b.bounce != nil:
		b.bounce.device.giveBack(b.bounce)
	default:
		for _, p := range b.pieces {
			p.by.uses--
		}
	}
	*b = buffer{}
}

// load copies outgoing data into the pool, and unload copies incoming data out of it. They do nothing for
// memory outside of the pool.
func (b *buffer) load() {
	if b.bounce != nil {
		b.memory.CopyTo(b.bounce.bytes)
	}
}

func (b *buffer) unload(n int) {
	if b.bounce != nil {
		b.memory.CopyFrom(b.bounce.bytes[:n])
	}
}

// write is an RDMA WRITE of n bytes, in which both devices access memory.
func (f *Fabric) write(from *device, src []piece, to *device, dst []piece, n int) {
	var s, d piece
	for n > 0 {
		for len(s.bytes) == 0 {
			s, src = src[0], src[1:]
			from.check(s)
		}
		for len(d.bytes) == 0 {
			d, dst = dst[0], dst[1:]
			to.check(d)
		}
		k := min(n, len(s.bytes), len(d.bytes))
		copy(d.bytes[:k], s.bytes)
		s.bytes, d.bytes = s.bytes[k:], d.bytes[k:]
		n -= k
	}
}

// check checks what hardware checks: the key must be valid and of this device, and the memory within its
// registration.
func (d *device) check(p piece) {
	r := p.by
	begin, at := uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes))), uintptr(unsafe.Pointer(unsafe.SliceData(p.bytes)))
	switch {
	case r.device != d:
		d.fabric.violated("a device is given the key of another one")
	case r.ended:
		d.fabric.violated("a device is told to touch %d bytes that were released", len(p.bytes))
	case d.closed:
		d.fabric.violated("a device is told to touch %d bytes, and is closed", len(p.bytes))
	case at < begin || at+uintptr(len(p.bytes)) > begin+uintptr(len(r.bytes)):
		d.fabric.violated("a device is told to touch %d bytes that are not registered", len(p.bytes))
	}
}

// close ends all registrations. All buffers of the pool must have been returned.
func (d *device) close() {
	for r := range d.regions {
		if r.uses > 0 {
			d.fabric.violated("%d messages use memory of a device that closes", r.uses)
		}
		r.ended = true
	}
	clear(d.regions)
	d.closed = true
	if d.lent > 0 {
		d.fabric.violated("%d buffers of a pool are lost", d.lent)
	}
}

// violated reports that memory was, or could have been, accessed without permission.
func (f *Fabric) violated(format string, args ...any) {
	if f.report == nil {
		panic("rdma: " + fmt.Sprintf(format, args...))
	}
	f.report(fmt.Errorf("rdma: "+format, args...))
}
