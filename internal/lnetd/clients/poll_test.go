package clients

import (
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// One of three TMs polls and the others are parked. A kick wakes only a TM that has something to do, and
// only once. A TM that leaves is no longer parked, and has no kick left for the next time.
func TestLookout(t *testing.T) {
	var l sharedPoller
	var tms []*tm
	for k := range 3 {
		one := &tm{polling: pollState{wake: make(chan struct{}, 1)}}
		tms = append(tms, one)
		if looks := l.tryPoll(one); looks != (k == 0) {
			t.Errorf("TM %d looks: %v", k, looks)
		}
	}
	busy := func(x *tm) bool { return x == tms[2] }
	if !l.wakeMatching(busy) || len(tms[2].polling.wake) != 1 || l.wakeMatching(busy) {
		t.Error("the one with something to do was not kicked, or twice")
	}
	if !slices.Equal(l.parked, tms[1:2]) || len(tms[1].polling.wake) != 0 {
		t.Errorf("parked are %v", l.parked)
	}
	for _, one := range tms[1:] {
		l.unpark(one)
	}
	if len(l.parked) != 0 || len(tms[2].polling.wake) != 0 {
		t.Errorf("parked are %v, and %d kicks are left", l.parked, len(tms[2].polling.wake))
	}
	if l.wakeMatching(func(*tm) bool { return true }) {
		t.Error("nobody was kicked")
	}
}

// The polling TM finds what is in the ring of a parked TM, and continues until its own time is over.
func TestWatchSeesOthers(t *testing.T) {
	var l sharedPoller
	var tms []*tm
	var rings []*shm.Client
	for range 2 {
		one, files, err := newTM(nil, transport.Address{}, 16)
		if err != nil {
			t.Fatal(err)
		}
		ring, err := shm.AttachRing(files)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = ring.Close(), one.ring.Close() })
		one.polling = newPolling(time.Hour)
		tms, rings = append(tms, one), append(rings, ring)
		l.tryPoll(one)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.pollAll(tms[0], time.Now().Add(time.Hour))
	}()
	if ok, err := rings[1].Submissions.Put(&shm.Submission{Opcode: shm.OpNop}); !ok {
		t.Fatal(err)
	}
	rings[1].Submissions.Publish()
	<-tms[1].polling.wake
	tms[0].closing.Store(true)
	<-ended
	if l.polling || len(l.parked) != 0 {
		t.Errorf("%v looks, parked are %v", l.polling, l.parked)
	}
}
