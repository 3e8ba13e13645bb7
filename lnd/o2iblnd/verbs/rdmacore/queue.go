//go:build o2ib

package rdmacore

// #include "o2.h"
import "C"

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Checks of the types that are passed to C without conversion. A line does not compile if the layouts in Go and
// in C differ.
const (
	_ = -(unsafe.Sizeof(verbs.Recv{}) ^ C.sizeof_o2_recv)
	_ = -(unsafe.Sizeof(verbs.Piece{}) ^ C.sizeof_o2_sge)
	_ = -(unsafe.Sizeof(verbs.Request{}) ^ C.sizeof_o2_wr)
	_ = -(unsafe.Sizeof(verbs.Completion{}) ^ C.sizeof_o2_wc)
	_ = -(unsafe.Sizeof(verbs.AsyncEvent{}) ^ C.sizeof_o2_async)
	_ = -(unsafe.Offsetof(verbs.Request{}.Flags) ^ unsafe.Offsetof(C.o2_wr{}.flags))
	_ = -(unsafe.Offsetof(verbs.Completion{}.Vendor) ^ unsafe.Offsetof(C.o2_wc{}.vendor))
)

// cq implements verbs.CQ. Polling holds handle.mu for writing, so that only one goroutine polls at a time.
type cq struct {
	handle[*C.o2_cq]
	waiting
	d       *device
	entries C.int
}

func (d *device) NewCQ(entries, vector int) (verbs.CQ, error) {
	q := &cq{handle: handle[*C.o2_cq]{p: d.p}, d: d}
	q.look = q.harvest
	_, err := do(&d.handle, func(c *C.o2_dev) (fd C.int) {
		fd = C.o2_cq_open(c, C.int(entries), C.int(vector%max(d.attr.Vectors, 1)), &q.c, &q.entries)
		if fd >= 0 {
			d.queues.Add(1)
			q.w, _ = newWaiter(fd, "rdma_comp")
		}
		return fd
	})
	if err != nil {
		return nil, verbs.Wrap(err, "completion queue of %d entries on %s", entries, d.attr.Name)
	}
	return q, nil
}

// poll fetches completions. If it finds none, it polls for the time spin; while completions of requests are deferred,
// only those of receives end that. With a spin of 0 and unless arm is armedNone, it makes the queue's descriptor
// become readable at the next completion of a kind in arm.
func (q *cq) poll(wc []verbs.Completion, arm int32, spin time.Duration) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.c == nil {
		return 0, verbs.ErrClosed
	}
	q.p.polls.Add(1)
	out := (*C.o2_wc)(unsafe.Pointer(unsafe.SliceData(wc)))
	if spin > 0 {
		return result(C.o2_cq_spin(q.c, out, C.int(len(wc)), C.uint64_t(spin), (*C.uint32_t)(unsafe.Pointer(&q.deferred))))
	}
	return result(C.o2_cq_poll(q.c, out, C.int(len(wc)), C.int(arm)))
}

func (q *cq) Close() error {
	err := end(&q.handle, func(c *C.o2_cq) C.int { return C.o2_cq_close(c) })
	if err == nil {
		q.d.queues.Add(-1)
		q.w.end()
	}
	return verbs.Wrap(err, "close the completion queue")
}

func (i *id) CreateQP(size *verbs.QP) error {
	q, ok := size.CQ.(*cq)
	z := C.o2_qp{sends: C.uint32_t(size.Sends), recvs: C.uint32_t(size.Recvs), pieces: C.uint32_t(size.SendPieces), inline_max: C.uint32_t(size.Inline)}
	err := i.call("create queue pair", func(c *C.o2_id) (rc C.int) {
		rc = -C.int(syscall.EINVAL)
		if ok && i.QPN() == 0 {
			_, _ = do(&q.handle, func(cq *C.o2_cq) C.int {
				rc = C.o2_qp_create(c, q.d.c, cq, &z)
				return 0
			})
		}
		if rc == 0 {
			i.qpn.Store(uint32(z.qpn))
		}
		return rc
	})
	if err == nil {
		size.Sends, size.Recvs, size.SendPieces, size.Inline = int(z.sends), int(z.recvs), int(z.pieces), int(z.inline_max)
	}
	return err
}

func (i *id) Post(recvs []verbs.Recv, requests []verbs.Request, pieces []verbs.Piece) (nrecvs, nrequests int, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	switch {
	case i.c == nil:
		return 0, 0, verbs.ErrClosed
	case !verbs.PiecesFit(requests, len(pieces)):
		return 0, 0, syscall.EINVAL
	}
	i.p.posts.Add(1)
	var r, w C.int
	_, err = result(C.o2_post(i.c, (*C.o2_recv)(unsafe.Pointer(unsafe.SliceData(recvs))), C.int(len(recvs)), (*C.o2_wr)(unsafe.Pointer(unsafe.SliceData(requests))),
		C.int(len(requests)), (*C.o2_sge)(unsafe.Pointer(unsafe.SliceData(pieces))), &r, &w))
	return int(r), int(w), err
}
