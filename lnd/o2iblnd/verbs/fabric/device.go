package fabric

import (
	"slices"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// opened is a device that a process has opened. It implements verbs.Device.
type opened struct {
	p     *Process
	hw    *Device
	attr  verbs.DeviceAttr
	ready sync.Cond

	// Guarded by Fabric.mu.
	closed     bool
	regions    map[uint32]*region // registered memory, by the key for local use
	registered uint64             // registered bytes
	qps        int                // number of queue pairs
	queues     map[*cq]struct{}
	queue      []verbs.AsyncEvent
}

func (i *id) Device() (d verbs.Device, port int, err error) {
	err = i.call("device", func() error {
		if i.port == nil || i.state == cmResolving && !i.addrKnown {
			return syscall.ENODEV
		}
		p, hw := i.ch.p, i.port.device
		o := p.devices[hw]
		if o == nil {
			o = &opened{p: p, hw: hw, attr: i.f.config.Device, regions: make(map[uint32]*region), queues: make(map[*cq]struct{})}
			o.attr.Name, o.attr.Ports = hw.name, len(hw.ports)
			o.ready.L = &i.f.mu
			p.devices[hw] = o
		}
		d, port = o, i.port.number
		return nil
	})
	return d, port, err
}

func (d *opened) Attr() verbs.DeviceAttr { return d.attr }

// call runs f with the fabric's lock held, for a method that the process has called. It returns an error if the
// device is closed or removed.
func (d *opened) call(f func() error) error {
	d.p.others.Add(1)
	d.p.host.fabric.lock()
	defer d.p.host.fabric.unlock()
	switch {
	case d.closed:
		return verbs.ErrClosed
	case d.hw.removed:
		return syscall.EIO
	}
	return f()
}

func (d *opened) Port(n int) (a verbs.PortAttr, err error) {
	err = d.call(func() error {
		if n < 1 || n > len(d.hw.ports) {
			return syscall.EINVAL
		}
		a = verbs.PortAttr{State: verbs.PortActive, MTU: 4096, Ethernet: true}
		if !d.hw.ports[n-1].net.Works() {
			a.State = verbs.PortDown
		}
		return nil
	})
	return a, verbs.Wrap(err, "port %d of %s", n, d.attr.Name)
}

// push delivers a device event to the process.
func (d *opened) push(e verbs.AsyncEvent) {
	if !d.closed {
		d.queue = append(d.queue, e)
		d.ready.Signal()
	}
}

func (d *opened) Events(ev []verbs.AsyncEvent) (int, error) {
	f := d.p.host.fabric
	f.lock()
	defer f.unlock()
	for len(d.queue) == 0 && !d.closed {
		d.ready.Wait()
	}
	if d.closed {
		return 0, verbs.Wrap(verbs.ErrClosed, "events of %s", d.attr.Name)
	}
	d.p.events.Add(1)
	n := copy(ev, d.queue)
	d.queue = slices.Delete(d.queue, 0, n)
	return n, nil
}

func (d *opened) Close() error {
	f := d.p.host.fabric
	f.lock()
	defer f.unlock()
	if d.closed {
		return verbs.Wrap(verbs.ErrClosed, "close %s", d.attr.Name)
	}
	if n := len(d.regions) + len(d.queues) + d.qps; n > 0 {
		return verbs.Wrap(syscall.EBUSY, "close %s: %d objects left", d.attr.Name, n)
	}
	d.close()
	delete(d.p.devices, d.hw)
	return nil
}

func (d *opened) close() {
	d.closed = true
	for _, m := range d.regions {
		if m.own {
			d.p.host.fabric.config.Recycler.put(m.b)
		}
	}
	clear(d.regions)
	d.ready.Broadcast()
	for q := range d.queues {
		q.ready.Broadcast()
	}
}

// region is registered memory. It implements verbs.Memory.
type region struct {
	d      *opened
	b      []byte
	addr   uint64
	key    uint32
	access verbs.Access
	own    bool // the memory was allocated by Alloc
}

// poison is the value of all bytes of memory from Alloc after it was closed, so that later reads are noticed.
const poison = 0xdb

// remoteKey is XORed with a region's local key to get the remote key.
const remoteKey = 0x5a00_0000

// Alloc implements verbs.Device. It uses Go's memory, so that the race detector notices if the program and the
// device access it at the same time.
func (d *opened) Alloc(size int, _ bool, a verbs.Access) (verbs.Memory, error) {
	if size <= 0 {
		return nil, verbs.Wrap(syscall.EINVAL, "allocate %d bytes", size)
	}
	return d.register(&region{d: d, b: d.p.host.fabric.config.Recycler.take(size), access: a, own: true})
}

func (d *opened) Register(b []byte, a verbs.Access) (verbs.Memory, error) {
	if len(b) == 0 {
		return nil, verbs.Wrap(syscall.EINVAL, "register 0 bytes")
	}
	return d.register(&region{d: d, b: b, access: a})
}

// FailRegister makes Register return err on this device, as if the device had no room for another registration.
// Alloc is not affected. If err is nil, Register works again.
func (d *Device) FailRegister(err error) {
	d.host.fabric.lock()
	defer d.host.fabric.unlock()
	d.refusal = err
}

// LimitInline makes CreateQP return EINVAL on this device if more than n inline bytes are requested.
func (d *Device) LimitInline(n int) {
	d.host.fabric.lock()
	defer d.host.fabric.unlock()
	d.inline = n
}

// Registered returns the number of registrations by Register on the device that are not closed, of all
// processes.
func (d *Device) Registered() (n int) {
	d.host.fabric.lock()
	defer d.host.fabric.unlock()
	for _, p := range d.host.processes {
		if o := p.devices[d]; o != nil {
			for _, m := range o.regions {
				if !m.own {
					n++
				}
			}
		}
	}
	return n
}

func (d *opened) register(m *region) (verbs.Memory, error) {
	f := d.p.host.fabric
	size := uint64(len(m.b))
	err := d.call(func() error {
		switch {
		case !m.own && d.hw.refusal != nil:
			return d.hw.refusal
		case d.registered+size > d.attr.MaxMemory:
			return verbs.ErrLocked
		case len(d.regions) >= d.attr.MaxMR:
			return syscall.ENOMEM
		}
		const page, gap = 4096, 1 << 20 // an access beyond the end of a region reaches the gap and fails
		m.key, m.addr = f.number(), f.space
		f.space += (size+page-1)/page*page + gap
		if !m.own {
			m.addr += 8 // memory of a program is not aligned to pages
		}
		d.regions[m.key] = m
		d.registered += size
		return nil
	})
	if err != nil {
		return nil, verbs.Wrap(err, "register %d bytes with %s", size, d.attr.Name)
	}
	return m, nil
}

func (m *region) Bytes() []byte { return m.b }
func (m *region) Addr() uint64  { return m.addr }
func (m *region) LKey() uint32  { return m.key }
func (m *region) RKey() uint32  { return m.key ^ remoteKey }

func (m *region) Close() error {
	f := m.d.p.host.fabric
	m.d.p.others.Add(1)
	f.lock()
	defer f.unlock()
	if m.d.regions[m.key] != m {
		return verbs.Wrap(verbs.ErrClosed, "unregister %d bytes", len(m.b))
	}
	m.checkUnused()
	delete(m.d.regions, m.key)
	m.d.registered -= uint64(len(m.b))
	if m.own && !f.config.Recycler.put(m.b) {
		for k := range m.b { // makes later reads noticeable
			m.b[k] = poison
		}
	}
	return nil
}
