//go:build o2ib

package rdmacore

// #include "o2.h"
import "C"

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// The values are handed to C as they are.
const (
	_ = -(unsafe.Sizeof(verbs.Recv{}) ^ C.sizeof_o2_recv)
	_ = -(unsafe.Sizeof(verbs.Piece{}) ^ C.sizeof_o2_sge)
	_ = -(unsafe.Sizeof(verbs.Request{}) ^ C.sizeof_o2_wr)
	_ = -(unsafe.Sizeof(verbs.Completion{}) ^ C.sizeof_o2_wc)
	_ = -(unsafe.Sizeof(verbs.AsyncEvent{}) ^ C.sizeof_o2_async)
	_ = -(unsafe.Offsetof(verbs.Request{}.First) ^ 20) - (unsafe.Offsetof(verbs.Request{}.Flags) ^ 25) - (unsafe.Offsetof(verbs.Completion{}.Vendor) ^ 20)
)

// device implements verbs.Device.
type device struct {
	p       *provider
	d       *C.o2_dev
	context C.uintptr_t
	w       waiter
	attr    verbs.DeviceAttr
	users   atomic.Int64 // memory, completion queues and IDs
	mu      sync.RWMutex // held for writing to close
	closed  bool
}

func (i *id) Device() (verbs.Device, int, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.c2 == nil {
		return nil, 0, verbs.Wrap(verbs.ErrClosed, "device")
	}
	i.c.p.others.Add(1)
	p := i.c.p
	var port C.int
	context := C.o2_id_context(i.c2, &port)
	if context == 0 {
		return nil, 0, verbs.Wrap(syscall.ENODEV, "device of %s", i.Local())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.devices[context]; d != nil {
		return d, int(port), nil
	}
	d := &device{p: p, context: context}
	var a C.o2_dev_attr
	var fd C.int
	err := errno(C.o2_dev_open(i.c2, &d.d, &a, &fd))
	if err == nil {
		d.w, err = newWaiter(fd, "rdma_async")
	}
	if err != nil {
		return nil, 0, verbs.Wrap(err, "device of %s", i.Local())
	}
	d.attr = verbs.DeviceAttr{Name: C.GoString(&a.name[0]), Ports: int(a.ports), MaxQP: int(a.max_qp), MaxWR: int(a.max_wr), MaxPieces: int(a.max_sge),
		MaxCQ: int(a.max_cq), MaxCQE: int(a.max_cqe), MaxMR: int(a.max_mr), MaxMemory: uint64(a.max_memory), Vectors: int(a.vectors)}
	p.devices[context] = d
	return d, int(port), nil
}

func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// do calls f while the device is kept from being closed. What f makes counts as user.
func (d *device) do(user int64, f func() C.int) error {
	d.p.others.Add(1)
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if err := errno(f()); err != nil {
		return err
	}
	d.users.Add(user)
	return nil
}

func (d *device) Port(n int) (verbs.PortAttr, error) {
	var a C.o2_port
	err := d.do(0, func() C.int { return C.o2_dev_port(d.d, C.int(n), &a) })
	return verbs.PortAttr{State: verbs.PortState(a.state), MTU: int(a.mtu), Ethernet: a.ethernet != 0}, verbs.Wrap(err, "port %d of %s", n, d.attr.Name)
}

func (d *device) Events(ev []verbs.AsyncEvent) (n int, err error) {
	var failed error
	err = d.w.wait(func(uintptr) bool {
		d.p.events.Add(1)
		got := C.o2_dev_drain(d.d, (*C.o2_async)(unsafe.Pointer(unsafe.SliceData(ev))), C.int(len(ev)))
		n, failed = max(int(got), 0), errno(got)
		return got != 0
	})
	if err == nil {
		err = failed
	}
	return n, verbs.Wrap(err, "events of %s", d.attr.Name)
}

func (d *device) Close() error {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if n := d.users.Load(); n > 0 {
		return verbs.Wrap(syscall.EBUSY, "close %s: %d objects left", d.attr.Name, n)
	}
	if err := errno(C.o2_dev_close(d.d)); err != nil {
		return verbs.Wrap(err, "close %s", d.attr.Name)
	}
	d.closed = true
	d.w.file.Close()
	delete(d.p.devices, d.context)
	return nil
}

// region implements verbs.Memory.
type region struct {
	d          *device
	mr         *C.o2_mr
	b          []byte
	lkey, rkey C.uint32_t
	own        bool           // mapped by Alloc
	pin        runtime.Pinner // of a program's memory, should it be Go's
	closed     atomic.Bool
}

func (d *device) Alloc(size int, huge bool, a verbs.Access) (verbs.Memory, error) {
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON
	err := error(syscall.EINVAL)
	var b []byte
	if huge {
		b, err = syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags|syscall.MAP_HUGETLB)
	}
	if err != nil {
		b, err = syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	}
	if err != nil {
		return nil, verbs.Wrap(err, "map %d bytes", size)
	}
	m, err := d.register(b, true, a)
	if err != nil {
		_ = syscall.Munmap(b)
		return nil, err
	}
	return m, nil
}

func (d *device) Register(b []byte, a verbs.Access) (verbs.Memory, error) {
	if len(b) == 0 {
		return nil, verbs.Wrap(syscall.EINVAL, "register no bytes")
	}
	m, err := d.register(b, false, a)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (d *device) register(b []byte, own bool, a verbs.Access) (*region, error) {
	m := &region{d: d, b: b, own: own}
	m.pin.Pin(unsafe.SliceData(b))
	err := d.do(1, func() C.int {
		return C.o2_mem_reg(d.d, C.uintptr_t(m.Addr()), C.size_t(len(b)), C.int(a), &m.mr, &m.lkey, &m.rkey)
	})
	if err == nil {
		return m, nil
	}
	m.pin.Unpin()
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM) {
		err = verbs.ErrLocked
	}
	return nil, verbs.Wrap(err, "register %d bytes with %s", len(b), d.attr.Name)
}

func (m *region) Bytes() []byte { return m.b }
func (m *region) Addr() uint64  { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))) }
func (m *region) LKey() uint32  { return uint32(m.lkey) }
func (m *region) RKey() uint32  { return uint32(m.rkey) }

func (m *region) Close() error {
	if m.closed.Swap(true) {
		return verbs.ErrClosed
	}
	if err := m.d.do(-1, func() C.int { return C.o2_mem_unreg(m.mr) }); err != nil {
		return verbs.Wrap(err, "unregister %d bytes", len(m.b))
	}
	m.pin.Unpin()
	if m.own {
		return verbs.Wrap(syscall.Munmap(m.b), "unmap")
	}
	return nil
}

// cq implements verbs.CQ.
type cq struct {
	d       *device
	entries C.int
	w       waiter
	spin    verbs.Spin
	users   atomic.Int64 // queue pairs

	mu sync.Mutex
	q  *C.o2_cq // nil: closed

	// What Wait tells its harvest, and what that tells it, so that nothing is allocated.
	wc    []verbs.Completion
	limit time.Duration
	n     int
	err   error
	look  func(uintptr) bool
}

func (d *device) NewCQ(entries, vector int) (verbs.CQ, error) {
	q := &cq{d: d}
	var fd C.int
	err := d.do(1, func() C.int {
		return C.o2_cq_open(d.d, C.int(entries), C.int(vector%max(d.attr.Vectors, 1)), &q.q, &fd, &q.entries)
	})
	if err == nil {
		q.w, err = newWaiter(fd, "rdma_comp")
	}
	if err != nil {
		return nil, verbs.Wrap(err, "completion queue of %d entries on %s", entries, d.attr.Name)
	}
	q.look = q.harvest
	return q, nil
}

func (q *cq) Entries() int { return int(q.entries) }

func (q *cq) poll(wc []verbs.Completion, arm C.int, spin time.Duration) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.q == nil {
		return 0, verbs.ErrClosed
	}
	q.d.p.polls.Add(1)
	n := C.o2_cq_poll(q.q, (*C.o2_wc)(unsafe.Pointer(unsafe.SliceData(wc))), C.int(len(wc)), arm, C.uint64_t(spin))
	return max(int(n), 0), errno(n)
}

func (q *cq) Poll(wc []verbs.Completion) (int, error) { return q.poll(wc, 0, 0) }

func (q *cq) harvest(uintptr) bool {
	q.n, q.err = q.poll(q.wc, 1, q.spin.Time(q.limit))
	if q.n > 0 {
		q.spin.Found(q.limit)
	} else {
		q.spin.Missed()
		q.d.p.sleeps.Add(1)
	}
	return q.n > 0 || q.err != nil
}

func (q *cq) Wait(wc []verbs.Completion, spin time.Duration) (int, error) {
	q.wc, q.limit = wc, spin
	err := q.w.wait(q.look)
	if err == nil {
		err = q.err
	}
	return q.n, err
}

func (q *cq) Close() error {
	q.mu.Lock()
	if q.q == nil {
		q.mu.Unlock()
		return verbs.ErrClosed
	}
	if n := q.users.Load(); n > 0 {
		q.mu.Unlock()
		return verbs.Wrap(syscall.EBUSY, "close the completion queue: %d queue pairs left", n)
	}
	c := q.q
	q.q = nil
	q.mu.Unlock()
	q.w.file.Close() // waits for Wait
	return verbs.Wrap(q.d.do(-1, func() C.int { return C.o2_cq_close(c) }), "close the completion queue")
}

func (i *id) CreateQP(size *verbs.QP) error {
	q, ok := size.CQ.(*cq)
	if !ok || i.QPN() != 0 {
		return verbs.Wrap(syscall.EINVAL, "queue pair")
	}
	z := C.o2_qp{sends: C.uint32_t(size.Sends), recvs: C.uint32_t(size.Recvs), pieces: C.uint32_t(size.SendPieces), inline_max: C.uint32_t(size.Inline)}
	err := i.do("make queue pair", func() C.int {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.q == nil {
			return -C.int(syscall.EINVAL)
		}
		q.users.Add(1)
		return C.o2_qp_create(i.c2, q.d.d, q.q, &z)
	})
	if err != nil {
		return err
	}
	size.Sends, size.Recvs, size.SendPieces, size.Inline = int(z.sends), int(z.recvs), int(z.pieces), int(z.inline_max)
	q.d.users.Add(1)
	i.dev, i.cq = q.d, q
	i.qpn.Store(uint32(z.qpn))
	return nil
}

func (i *id) Post(recvs []verbs.Recv, requests []verbs.Request, pieces []verbs.Piece) (nrecvs, nrequests int, err error) {
	for k := range requests {
		if int(requests[k].First)+int(requests[k].Count) > len(pieces) {
			return 0, 0, verbs.Wrap(syscall.EINVAL, "post: request %d names pieces that are not there", k)
		}
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.c2 == nil {
		return 0, 0, verbs.ErrClosed
	}
	i.c.p.posts.Add(1)
	var r, w C.int
	rc := C.o2_post(i.c2, (*C.o2_recv)(unsafe.Pointer(unsafe.SliceData(recvs))), C.int(len(recvs)), (*C.o2_wr)(unsafe.Pointer(unsafe.SliceData(requests))),
		C.int(len(requests)), (*C.o2_sge)(unsafe.Pointer(unsafe.SliceData(pieces))), &r, &w)
	return int(r), int(w), errno(rc)
}
