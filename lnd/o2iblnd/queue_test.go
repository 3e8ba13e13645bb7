package o2iblnd

import (
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// TestCompletionsFindTheirConnections: a completion finds the connection that had the place when
// the work was posted. It finds none after that connection has left, even if another one has taken
// the place.
func TestCompletionsFindTheirConnections(t *testing.T) {
	q := &queue{}
	find := func(wr uint64) *conn {
		b := &batch{}
		b.wc[0] = verbs.Completion{WRID: wrRecv<<(3*fieldBits) | wr | 5}
		q.find(b, 1)
		return b.conns[0]
	}
	first, second := &conn{}, &conn{}
	q.enter(first)
	q.enter(second)
	if find(first.wr) != first || find(second.wr) != second {
		t.Error("the connections are not found")
	}
	q.leave(first)
	if find(first.wr) != nil || find(second.wr) != second {
		t.Error("a connection that has left is found, or the other one is not")
	}
	third := &conn{}
	q.enter(third)
	if third.place != first.place || third.wr == first.wr {
		t.Errorf("place %d with ID %#x, want place %d with another ID than %#x", third.place, third.wr, first.place, first.wr)
	}
	if find(first.wr) != nil || find(third.wr) != third {
		t.Error("work of the connection that has left leads to the one that has its place")
	}
}

// TestRoomInQueues checks that room in queues is reserved and returned, and that the queue with the
// most room is chosen.
func TestRoomInQueues(t *testing.T) {
	dev := &device{d: &Driver{}}
	small, large := &queue{dev: dev, room: 10}, &queue{dev: dev, room: 20}
	dev.queues = []*queue{small, large}
	if q := dev.reserveQueue(12, 0); q != large || large.room != 8 {
		t.Errorf("room %d is left in the larger queue, want 8", large.room)
	}
	if q := dev.reserveQueue(9, 0); q != small || small.room != 1 {
		t.Errorf("room %d is left in the smaller queue, want 1", small.room)
	}
	if q := dev.reserveQueue(9, 0); q != nil {
		t.Error("there is room for 9 entries where 8 are free")
	}
	small.releaseEntries(9)
	large.releaseEntries(12)
	if small.room != 10 || large.room != 20 {
		t.Errorf("room %d and %d, want 10 and 20", small.room, large.room)
	}
	if q := dev.reserveQueue(1, 3); q != nil {
		t.Error("no new queue is asked for although there are fewer than 3")
	}
}

// TestUnfedWaitFirst: messages that got no memory wait in front of later ones, so the order of
// messages to a peer stays.
func TestUnfedWaitFirst(t *testing.T) {
	a, b, c := &lnd.Tx{}, &lnd.Tx{}, &lnd.Tx{}
	i := &Interface{memoryWaiters: []memoryWaiter{{m: c}}}
	i.requeueMemoryWaiters([]memoryWaiter{{m: a}, {m: b}})
	if len(i.memoryWaiters) != 3 || i.memoryWaiters[0].m != a || i.memoryWaiters[1].m != b || i.memoryWaiters[2].m != c {
		t.Errorf("%d wait, not in the order in which they came", len(i.memoryWaiters))
	}
}
