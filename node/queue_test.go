package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

func TestEventQueueKeepsWhatIsWanted(t *testing.T) {
	q := node.NewEventQueue(node.EventsOf(portals.EventAck, portals.EventPut))
	failure := errors.New("failure")
	for k, e := range []portals.Event{
		{Type: portals.EventAck}, {Type: portals.EventSend}, {Type: portals.EventSend, Err: failure}, {Type: portals.EventGet},
		{Type: portals.EventPut}, {Type: portals.EventUnlink, Unlinked: true}, {Type: portals.EventReply}, {Type: portals.EventAck},
	} {
		e.HdrData = uint64(k)
		q.HandleEvent(&e)
	}
	var got []uint64
	var e portals.Event
	for q.TryNext(&e) {
		got = append(got, e.HdrData)
	}
	if d := cmp.Diff([]uint64{0, 2, 4, 5, 7}, got); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := q.Next(ctx, &e); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

func TestEventQueueServesSeveralWaiters(t *testing.T) {
	const waiters, each = 4, 500
	q := node.NewEventQueue(node.AllEvents)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]bool{}
	for w := range waiters {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if w%2 == 0 {
				ctx = context.Background()
			}
			var e portals.Event
			for range each {
				if err := q.Next(ctx, &e); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[e.HdrData] = true
				mu.Unlock()
			}
		})
	}
	for k := range uint64(waiters * each) {
		q.HandleEvent(&portals.Event{Type: portals.EventAck, HdrData: k})
	}
	all.Wait()
	if len(seen) != waiters*each {
		t.Errorf("%d events seen, want %d", len(seen), waiters*each)
	}
}
