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

// orderedMutex is a lock with a rank. Whoever holds one takes only those of higher ranks:
// Lock panics on a reversal, be there a deadlock or not. The build without the race
// detector has a plain one (order_off.go).
type orderedMutex[R rank] struct{ mu sync.Mutex }

// Lock is sync.Mutex.Lock.
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

// Unlock is sync.Mutex.Unlock. Locks need not be released in reverse, but by the goroutine
// that has taken them.
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

// heldLocks are the ranks of what goroutines hold, in the order in which it was taken.
type heldLocks struct {
	mu   sync.Mutex
	held map[uint64][]int
}

var locks = heldLocks{held: make(map[uint64][]int)}

// of is what a goroutine holds. That goroutine alone asks, and changes it.
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

// goroutine is the number of the goroutine that calls it, which the first line of its stack
// begins with: "goroutine 12 [running]:".
func goroutine() uint64 {
	var room [64]byte
	b := bytes.TrimPrefix(room[:runtime.Stack(room[:], false)], []byte("goroutine "))
	b, _, _ = bytes.Cut(b, []byte(" "))
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		panic("transport: a stack without a number")
	}
	return n
}
