package mem

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport"
)

// buffer is a CoreBuffer, and the place of its op in what waits at a TM: a buffer has one op
// at most.
type buffer struct {
	domain   *domain
	segments [][]byte
	size     int
	token    any

	// tm is where the op waits, nil if none does; it is changed with that TM's mu held, and
	// so who holds the mu of the TM that it names may look at the rest.
	tm         atomic.Pointer[tm]
	op         transport.Op
	offset     int // of the next message
	list       *list
	next, prev *buffer
}

// Deregister ends it.
func (b *buffer) Deregister() error {
	if b.tm.Load() != nil {
		return fmt.Errorf("mem: deregister a buffer that waits: %w", syscall.EBUSY)
	}
	b.domain.mu.Lock()
	defer b.domain.mu.Unlock()
	b.domain.use(b, -1)
	return nil
}

// list has buffers in the order in which they were appended.
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

// move copies the first n bytes of src to dst, at bytes from its beginning. EFAULT: memory
// of one of them is gone.
func move(dst [][]byte, at int, src [][]byte, n int) error {
	if f := memory.Guard(func() { moveSound(dst, at, src, n) }); f != nil {
		return f
	}
	return nil
}

func moveSound(dst [][]byte, at int, src [][]byte, n int) {
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
