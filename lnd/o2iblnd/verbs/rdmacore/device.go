//go:build o2ib

package rdmacore

// #include "o2.h"
import "C"

import (
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// device implements verbs.Device.
type device struct {
	handle[*C.o2_dev]
	context C.uintptr_t
	anchor  *C.o2_id // an ID that makes librdmacm keep the device open; nil if the device had no port for it
	w       waiter
	attr    verbs.DeviceAttr
	queues  atomic.Int64 // completion queues, which the library does not count
	removed atomic.Int32 // one of the states present, pending and delivered
}

func (i *id) Device() (d verbs.Device, port int, err error) {
	err = i.call("device", func(c *C.o2_id) C.int {
		var n C.int
		context := C.o2_id_context(c, &n)
		if context == 0 {
			return -C.int(syscall.ENODEV)
		}
		p := i.p
		p.mu.Lock()
		defer p.mu.Unlock()
		found := p.devices[context]
		if found == nil {
			found = &device{handle: handle[*C.o2_dev]{p: p}, context: context}
			var a C.o2_attr
			fd := C.o2_dev_open(c, &found.c, &a)
			if found.w, err = newWaiter(fd, "rdma_async"); err != nil {
				return fd
			}
			found.anchor = C.o2_dev_anchor(c)
			found.attr = verbs.DeviceAttr{Name: C.GoString(&a.name[0]), Ports: int(a.ports), MaxQP: int(a.max_qp), MaxWR: int(a.max_wr), MaxPieces: int(a.max_sge),
				MaxCQ: int(a.max_cq), MaxCQE: int(a.max_cqe), MaxMR: int(a.max_mr), MaxMemory: uint64(a.max_memory), Vectors: int(a.vectors)}
			p.devices[context] = found
			noteUse(c, found)
		}
		d, port = found, int(n)
		return 0
	})
	return d, port, err
}

// noteUse records the device that the ID c is bound to, if any. If d is not nil, it also records that d uses
// this device.
func noteUse(c *C.o2_id, d *device) {
	var port C.int
	if key := C.o2_id_context(c, &port); key != 0 {
		var fds [2]int32
		var dir [256]C.char
		C.o2_id_files(c, (*C.int)(&fds[0]), (*C.int)(&fds[1]), &dir[0], C.int(len(dir)))
		noteContext(uintptr(key), fds, C.GoString(&dir[0]), d)
	}
}

func (d *device) Attr() verbs.DeviceAttr { return d.attr }

func (d *device) Port(n int) (verbs.PortAttr, error) {
	var mtu, ethernet C.int
	state, err := do(&d.handle, func(c *C.o2_dev) C.int { return C.o2_dev_port(c, C.int(n), &mtu, &ethernet) })
	return verbs.PortAttr{State: verbs.PortState(state), MTU: int(mtu), Ethernet: ethernet != 0}, verbs.Wrap(err, "port %d of %s", n, d.attr.Name)
}

func (d *device) Events(ev []verbs.AsyncEvent) (n int, err error) {
	var failed error
	if n := d.fatal(ev); n > 0 {
		return n, nil
	}
	err = d.w.wait(func(uintptr) bool {
		d.p.events.Add(1)
		n, failed = hold(&d.handle, func(c *C.o2_dev) C.int {
			return C.o2_dev_drain(c, (*C.o2_async)(unsafe.Pointer(unsafe.SliceData(ev))), C.int(len(ev)))
		})
		return n > 0 || failed != nil
	})
	if err != nil {
		if n := d.fatal(ev); n > 0 {
			return n, nil
		}
	}
	return n, verbs.Wrap(errors.Join(err, failed), "events of %s", d.attr.Name)
}

func (d *device) Close() error {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	err := end(&d.handle, func(c *C.o2_dev) C.int {
		if d.queues.Load() > 0 {
			return -C.int(syscall.EBUSY)
		}
		return C.o2_dev_close(c)
	})
	if err == nil {
		delete(d.p.devices, d.context)
		d.w.end()
		if d.anchor != nil {
			C.o2_id_destroy(d.anchor)
		}
		leaveContext(d)
		releaseRemoved()
	}
	return verbs.Wrap(err, "close %s", d.attr.Name)
}

// region implements verbs.Memory.
type region struct {
	handle[*C.o2_mr]
	b          []byte
	lkey, rkey C.uint32_t
	own        bool           // Alloc has mapped the memory
	pin        runtime.Pinner // pins memory of the program, in case it is in Go's heap
}

// register registers the memory of m with the device.
func (d *device) register(m *region, a verbs.Access) (verbs.Memory, error) {
	m.p = d.p
	m.pin.Pin(unsafe.SliceData(m.b))
	_, err := do(&d.handle, func(c *C.o2_dev) C.int {
		return C.o2_mem_reg(c, C.uintptr_t(m.Addr()), C.size_t(len(m.b)), C.int(a), &m.c, &m.lkey, &m.rkey)
	})
	if err == nil {
		return m, nil
	}
	m.pin.Unpin()
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM) {
		err = verbs.ErrLocked
	}
	return nil, verbs.Wrap(err, "register %d bytes with %s", len(m.b), d.attr.Name)
}

func (m *region) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))) }

func (m *region) Close() error {
	err := end(&m.handle, func(c *C.o2_mr) C.int { return C.o2_mem_unreg(c) })
	if err == nil {
		m.pin.Unpin()
		if m.own {
			err = syscall.Munmap(m.b)
		}
	}
	return verbs.Wrap(err, "unregister %d bytes", len(m.b))
}
