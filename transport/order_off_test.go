//go:build !race

package transport

import (
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// ordersChecked reports whether the order of locks is checked.
const ordersChecked = false

// lockedNothing has an effect only in the build with the race detector.
func lockedNothing(rapid.TB) {}

// Without the race detector, a lock whose order is checked is as small as a sync.Mutex.
func TestLockOrderCostsNothing(t *testing.T) {
	if got, want := unsafe.Sizeof(orderedMutex[tmRank]{}), unsafe.Sizeof(sync.Mutex{}); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
