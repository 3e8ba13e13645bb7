//go:build race

package transport

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// ordersChecked reports whether the order of locks is checked, which allocates.
const ordersChecked = true

// lockedNothing fails the test if the caller holds a lock of the package.
func lockedNothing(t rapid.TB) {
	t.Helper()
	if held := locks.of(goroutine()); len(held) > 0 {
		t.Errorf("locks of ranks %d are held", held)
	}
}

// panics reports whether f panics.
func panics(f func()) (caught bool) {
	defer func() { caught = recover() != nil }()
	f()
	return false
}

// With the race detector, a goroutine that takes two locks in the wrong order panics.
//
// transport 3.2 (4)
func TestAReversalOfLocksIsCaught(t *testing.T) {
	var (
		pool   orderedMutex[poolRank]
		domain orderedMutex[domainRank]
		tm     [2]orderedMutex[tmRank]
	)
	all := []sync.Locker{&pool, &domain, &tm[0]}
	for i, first := range all {
		for k, second := range all {
			first.Lock()
			if i == k {
				second = map[bool]sync.Locker{true: &tm[1], false: first}[i == 2]
			}
			caught := panics(second.Lock)
			if !caught {
				second.Unlock()
			}
			first.Unlock()
			if caught != (k <= i) {
				t.Errorf("%d behind %d: caught %v", k, i, caught)
			}
		}
	}
	pool.Lock()
	tm[0].Lock()
	if got := locks.of(goroutine()); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("held: %v", got)
	}
	pool.Unlock() // not in reverse order
	if !panics(domain.Lock) {
		t.Error("a domain behind a TM, when the pool was released, is not caught")
	}
	tm[0].Unlock()
	lockedNothing(t)
	if !panics(tm[0].Unlock) {
		t.Error("a lock that is not held can be released")
	}
	other := make(chan bool)
	tm[0].Lock()
	go func() { other <- panics(func() { pool.Lock(); pool.Unlock() }) }()
	if <-other {
		t.Error("what another goroutine holds counts")
	}
	tm[0].Unlock()
}
