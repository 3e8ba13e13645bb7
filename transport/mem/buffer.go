package mem

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport"
)

// buffer is a CoreBuffer. It also holds the op that waits at a TM; a buffer has at most one op.
type buffer struct {
	domain   *domain
	segments [][]byte
	size     int
	token    any

	// tm is the TM at which the op waits, or nil. It is changed with that TM's mu held. So the other fields
	// may be accessed with the mu of the TM that it points to.
	tm         atomic.Pointer[tm]
	op         transport.Op
	offset     int // position of the next message
	list       *list
	next, prev *buffer
}

// Deregister ends the registration.
func (b *buffer) Deregister() error {
	if b.tm.Load() != nil {
		return fmt.Errorf("mem: deregister a buffer that waits: %w", syscall.EBUSY)
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

// guardedCopy copies the first n bytes of src to dst, at offset at. It returns EFAULT if the memory of one of them
// is gone.
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
