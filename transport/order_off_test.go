//go:build !race

package transport

import (
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// ordersChecked: they are not.
const ordersChecked = false

// lockedNothing is for the race detector's build, which knows.
func lockedNothing(rapid.TB) {}

func TestTheOrderOfLocksCostsNothing(t *testing.T) {
	if got, want := unsafe.Sizeof(orderedMutex[tmRank]{}), unsafe.Sizeof(sync.Mutex{}); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
