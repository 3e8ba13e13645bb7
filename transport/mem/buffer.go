package mem

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport"
)

// buffer is a CoreBuffer. It also contains the op that waits at a TM for a peer; a buffer has at most one op.
type buffer struct {
	domain   *domain
	segments [][]byte
	size     int
	token    any

	// tm is the TM at which the op waits, or nil. It changes only while the mu of this TM is held. This mu
	// guards the fields below while tm points to the TM.
	tm         atomic.Pointer[tm]
	op         transport.Op
	offset     int   // position of the next message
	list       *list // the list that the buffer is on
	next, prev *buffer
}

// Deregister ends the registration. It returns EBUSY if an op waits.
func (b *buffer) Deregister() error {
	if b.tm.Load() != nil {
		return fmt.Errorf("mem: deregister: an operation on the buffer is still in progress: %w", syscall.EBUSY)
	}
	b.domain.mu.Lock()
	defer b.domain.mu.Unlock()
	b.domain.addUsers(b, -1)
	return nil
}

// list is a FIFO list of buffers.
type list struct{ first, last *buffer }

func (l *list) append(b *buffer) {
	b.list, b.prev, b.next = l, l.last, nil
	if l.last == nil {
		l.first = b
	} else {
		l.last.next = b
	}
	l.last = b
}

func (l *list) remove(b *buffer) {
	if b.prev == nil {
		l.first = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next == nil {
		l.last = b.prev
	} else {
		b.next.prev = b.prev
	}
	b.list, b.prev, b.next = nil, nil, nil
}

// guardedCopy copies the first n bytes of src to dst, from offset at of dst. It returns EFAULT if memory of
// src or dst is no longer mapped.
func guardedCopy(dst [][]byte, at int, src [][]byte, n int) error {
	if f := memory.Guard(func() { copyBytes(dst, at, src, n) }); f != nil {
		return f
	}
	return nil
}

func copyBytes(dst [][]byte, at int, src [][]byte, n int) {
	for at >= len(dst[0]) {
		at -= len(dst[0])
		dst = dst[1:]
	}
	from := 0
	for n > 0 {
		k := copy(dst[0][at:], src[0][from:min(len(src[0]), from+n)])
		n -= k
		if at += k; at == len(dst[0]) {
			dst, at = dst[1:], 0
		}
		if from += k; from == len(src[0]) {
			src, from = src[1:], 0
		}
	}
}
