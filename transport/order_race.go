//go:build race

package transport

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

// orderedMutex is a mutex with a rank. A goroutine that holds an orderedMutex may lock only those of higher
// ranks. Lock panics if this order is violated, even if no deadlock results. Without the race detector,
// order_off.go defines a plain mutex instead.
type orderedMutex[R rank] struct{ mu sync.Mutex }

// Lock is like sync.Mutex.Lock.
func (m *orderedMutex[R]) Lock() {
	var r R
	me := goroutine()
	held := locks.of(me)
	if len(held) > 0 && held[len(held)-1] >= r.rank() {
		panic(fmt.Sprintf("transport: lock of rank %d taken by who holds %d", r.rank(), held))
	}
	m.mu.Lock()
	locks.set(me, append(held, r.rank()))
}

// Unlock is like sync.Mutex.Unlock. Locks may be released in any order, but only by the goroutine that
// acquired them.
func (m *orderedMutex[R]) Unlock() {
	var r R
	me := goroutine()
	held := locks.of(me)
	i := slices.Index(held, r.rank())
	if i < 0 {
		panic(fmt.Sprintf("transport: lock of rank %d released by who holds %d", r.rank(), held))
	}
	locks.set(me, slices.Delete(held, i, i+1))
	m.mu.Unlock()
}

// heldLocks records the ranks of the locks that each goroutine holds, in the order of acquisition.
type heldLocks struct {
	mu   sync.Mutex
	held map[uint64][]int
}

var locks = heldLocks{held: make(map[uint64][]int)}

// of returns the ranks of the locks that goroutine g holds. Only goroutine g uses the returned slice.
func (l *heldLocks) of(g uint64) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[g]
}

func (l *heldLocks) set(g uint64, held []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(held) == 0 {
		delete(l.held, g)
		return
	}
	l.held[g] = held
}

// goroutine returns the number of the calling goroutine, from the first line of its stack trace: "goroutine
// 12 [running]:".
func goroutine() uint64 {
	var room [64]byte
	b := bytes.TrimPrefix(room[:runtime.Stack(room[:], false)], []byte("goroutine "))
	b, _, _ = bytes.Cut(b, []byte(" "))
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		panic("transport: the stack has no goroutine number")
	}
	return n
}
