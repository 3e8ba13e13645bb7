package peering

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

func sourceOf(k int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, byte(k >> 8), byte(k)})
}

// enterAll has callers of these sources enter one after the other. It returns them, and the numbers of
// those that were evicted, in order.
func enterAll(t *testing.T, h *HalfOpen[int], sources ...int) (all []*Newcomer[int], evicted []int) {
	t.Helper()
	for k, source := range sources {
		n, victim := h.Enter(k, sourceOf(source))
		all = append(all, n)
		if victim == nil {
			continue
		}
		evicted = append(evicted, victim.Conn)
		var refused *lnd.RefusedError
		if err := h.Leave(victim); !errors.As(err, &refused) || refused.Reason != lnd.RefusedMany {
			t.Errorf("caller %d left with %v", victim.Conn, err)
		}
	}
	return all, evicted
}

// Above a limit, the oldest caller is evicted: of the same source, or of the source with the most.
func TestHalfOpenEvictsTheOldest(t *testing.T) {
	for _, tt := range []struct {
		name             string
		total, perSource int
		sources          []int
		evicted          []int
		left, most       int
	}{
		{"room for all", 6, 3, []int{1, 2, 2, 2}, nil, 4, 3},
		{"too many of one source", 6, 3, []int{1, 2, 2, 2, 2, 2}, []int{1, 2}, 4, 3},
		{"too many in all", 4, 3, []int{1, 2, 2, 2, 3, 4}, []int{1, 2}, 4, 1},
		{"equal sources", 4, 3, []int{2, 2, 1, 1, 3, 4}, []int{0, 2}, 4, 1},
	} {
		h := NewHalfOpen[int](tt.total, tt.perSource)
		_, evicted := enterAll(t, h, tt.sources...)
		if left, most := h.Len(); !slices.Equal(evicted, tt.evicted) || left != tt.left || most != tt.most {
			t.Errorf("%s: %v were evicted, want %v; %d left, %d of one source", tt.name, evicted, tt.evicted, left, most)
		}
	}
}

// A flood from more sources than there are places leaves each caller its time: the oldest goes.
func TestHalfOpenFloodOfManySources(t *testing.T) {
	const total = 50
	h := NewHalfOpen[int](total, 8)
	var sources, want []int
	for k := range 4 * total {
		sources = append(sources, k)
		if k >= total {
			want = append(want, k-total)
		}
	}
	if _, evicted := enterAll(t, h, sources...); !slices.Equal(evicted, want) {
		t.Errorf("%v were evicted, want the oldest", evicted)
	}
}

// A caller that has left makes room, and cannot be evicted.
func TestHalfOpenLeave(t *testing.T) {
	h := NewHalfOpen[int](10, 2)
	all, _ := enterAll(t, h, 1, 1)
	for range 2 {
		if err := h.Leave(all[0]); err != nil {
			t.Errorf("left with %v", err)
		}
	}
	if _, evicted := h.Enter(2, sourceOf(1)); evicted != nil {
		t.Errorf("caller %d was evicted", evicted.Conn)
	}
	if n := h.Evict(); n == nil || n.Conn != 1 {
		t.Errorf("evicted %+v, want caller 1", n)
	}
	if n := h.Evict(); n == nil || n.Conn != 2 {
		t.Errorf("evicted %+v, want caller 2", n)
	}
	if n := h.Evict(); n != nil {
		t.Errorf("evicted %+v of none", n)
	}
}

// Clear evicts the callers that match, for the given reason.
func TestHalfOpenClear(t *testing.T) {
	h := NewHalfOpen[int](10, 10)
	all, _ := enterAll(t, h, 1, 1, 2, 3)
	even := h.Clear(func(k int) bool { return k%2 == 0 }, io.EOF)
	if len(even) != 2 {
		t.Errorf("%d were evicted, want 2", len(even))
	}
	for k, n := range all {
		want := error(nil)
		if k%2 == 0 {
			want = io.EOF
		}
		if err := h.Leave(n); err != want {
			t.Errorf("caller %d left with %v, want %v", k, err, want)
		}
	}
	if left, _ := h.Len(); left != 0 {
		t.Errorf("%d are left", left)
	}
}

// If the table is full, the next caller waits while others complete their handshakes, but not because of silent callers
// or of those that fail.
func TestHalfOpenAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHalfOpen[int](2, 2)
		done := make(chan struct{})
		awaitAfter := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			h.AwaitRoom(done)
			if took := time.Since(began); took != want {
				t.Errorf("waited %v, want %v", took, want)
			}
		}
		leave := func(leave func(*Newcomer[int]) error, n *Newcomer[int]) {
			if err := leave(n); err != nil {
				t.Error(err)
			}
		}
		awaitAfter(0)
		first, _ := enterAll(t, h, 1, 2)
		awaitAfter(0) // no caller has left

		leave(h.Leave, first[1])
		second, _ := enterAll(t, h, 3)
		awaitAfter(0) // no caller has completed its handshake

		leave(h.Complete, second[0])
		third, _ := enterAll(t, h, 4)
		awaitAfter(stormPause)
		awaitAfter(0)
		if err := h.Leave(second[0]); err != nil {
			t.Errorf("left again with %v", err)
		}
		awaitAfter(0)

		leave(h.Complete, third[0])
		fourth, _ := enterAll(t, h, 5)
		time.AfterFunc(stormPause/2, func() { leave(h.Complete, fourth[0]) })
		awaitAfter(stormPause / 2)

		for k := 6; h.waited < first[0].grace-stormPause/2; k++ {
			next, _ := enterAll(t, h, k)
			time.AfterFunc(stormPause/2, func() { leave(h.Complete, next[0]) })
			awaitAfter(stormPause / 2)
		}
		enterAll(t, h, 1000)
		awaitAfter(first[0].grace - h.waited) // until the first caller has had its time
		if _, evicted := h.Enter(7, sourceOf(1001)); evicted != first[0] {
			t.Errorf("evicted %+v, want the oldest", evicted)
		}
		if err := h.Complete(first[0]); err == nil {
			t.Error("an evicted caller has completed its handshake")
		}
	})
}

// newlyFull returns a table that one caller fills, right after another one has completed its handshake.
func newlyFull(t *testing.T) *HalfOpen[int] {
	t.Helper()
	h := NewHalfOpen[int](1, 1)
	first, _ := enterAll(t, h, 1)
	if err := h.Complete(first[0]); err != nil {
		t.Error(err)
	}
	enterAll(t, h, 2)
	return h
}

// AwaitRoom ends when the driver stops to listen.
func TestHalfOpenAwaitRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newlyFull(t)
		done := make(chan struct{})
		close(done)
		began := time.Now()
		h.AwaitRoom(done)
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v", took)
		}
	})
}

// Callers that wait at several listeners have the same patience together as those of one.
func TestHalfOpenAwaitRoomOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newlyFull(t)
		began := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { h.AwaitRoom(nil) })
		}
		all.Wait()
		if took := time.Since(began); took < stormPause {
			t.Errorf("waited %v, want at least %v", took, stormPause)
		}
	})
}
