package peering

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

// metOnce is the record of a peer that was met once.
func metOnce(incarnation uint64, home bool) Record {
	r := Record{Home: home, Wire: "w"}
	r.Incarnations.Observe(incarnation)
	return r
}

func process(k int) lnet.ProcessID {
	return lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, uint32(k)), PID: lnet.PIDLustre}
}

func TestDepartedAreRecalledOnce(t *testing.T) {
	var d Departed
	if r, b := d.Recall(process(1), noon); r != (Record{}) || b != (Backoff{}) {
		t.Errorf("at the beginning: %+v, %+v", r, b)
	}
	for k, home := range []bool{true, false} {
		b := *newBackoff()
		b.Fail(noon, nil, 0)
		d.Keep(process(k), metOnce(5, home), b)
		if r, got := d.Recall(process(k), noon); r != metOnce(5, home) || got != b {
			t.Errorf("recalled %+v, %+v", r, got)
		}
		if r, got := d.Recall(process(k), noon); r != (Record{}) || got != (Backoff{}) {
			t.Errorf("recalled twice: %+v, %+v", r, got)
		}
	}
}

func TestDepartedThatTheNodeIsNotToldOfAreNotKept(t *testing.T) {
	var d Departed
	d.Keep(process(1), Record{Home: true}, Backoff{})
	d.Keep(lnet.ProcessID{NID: process(2).NID, PID: lnet.PIDUserFlag | 600}, metOnce(1, true), Backoff{})
	d.Keep(lnet.ProcessID{NID: process(3).NID, PID: 77}, metOnce(1, true), Backoff{})
	if got := d.home.Len() + d.claimed.Len() + d.failed.Len(); got != 0 {
		t.Errorf("%d entries", got)
	}
	d.Keep(process(4), metOnce(1, true), Backoff{})
	if r, _ := d.Recall(lnet.ProcessID{NID: process(4).NID, PID: 77}, noon); r.Incarnations.Any() {
		t.Error("another process was taken for the peer")
	}
}

// TestDepartedAreBounded shows that the memory stops growing, that the latest entries are there, and that
// any number of claimed NIDs displaces no peer that was met at home.
func TestDepartedAreBounded(t *testing.T) {
	var d Departed
	const friend, flood = 1, 10 * rememberedAtHome
	d.Keep(process(friend), metOnce(5, true), Backoff{})
	for k := range flood {
		d.Keep(process(1000+k), metOnce(1, false), Backoff{})
	}
	if got, most := d.claimed.Len(), 2*rememberedClaimed; got > most {
		t.Errorf("%d peers that claimed a NID are remembered, at most %d may be", got, most)
	}
	if r, _ := d.Recall(process(friend), noon); !r.Home {
		t.Error("the friend was forgotten for peers that claimed a NID")
	}
	for k := range flood {
		d.Keep(process(1000+k), metOnce(1, true), Backoff{})
	}
	if got, most := d.home.Len(), 2*rememberedAtHome; got > most {
		t.Errorf("%d are remembered, at most %d may be", got, most)
	}
	for k := flood - rememberedAtHome; k < flood; k++ {
		if r, _ := d.Recall(process(1000+k), noon); !r.Home {
			t.Fatalf("number %d of %d was forgotten", k, flood)
		}
	}
}

// TestFailedCallsAreBounded shows that any number of peers that cannot be reached take bounded memory, that
// the latest pauses are kept, and that old ones do not count.
func TestFailedCallsAreBounded(t *testing.T) {
	var d Departed
	b := *newBackoff()
	b.Fail(noon, nil, 0)
	const many = 10 * rememberedFailed
	for k := range many {
		d.Keep(process(k), Record{}, b)
	}
	if got := d.failed.Len(); got > 2*rememberedFailed {
		t.Errorf("%d are remembered", got)
	}
	if _, b := d.Recall(process(many-1), noon); b.Ready(noon) {
		t.Error("the last one may be called at once")
	}
	if _, b := d.Recall(process(many-2), noon.Add(2*time.Minute)); !b.Next().IsZero() {
		t.Error("a failure of long ago counts")
	}
	for k, nid := range map[int]lnet.NID{many - 3: process(many - 3).NID, many - 4: {}} {
		d.EndPauses(nid)
		if _, b := d.Recall(process(k), noon); !b.Ready(noon) {
			t.Error("an ended pause counts")
		}
	}
}

// TestFailuresWithShortPausesCount: a peer that could not be reached has failed, also if it is called again long after
// a short pause.
func TestFailuresWithShortPausesCount(t *testing.T) {
	var d Departed
	b := Backoff{Min: time.Second, Max: time.Second}
	b.Fail(noon, errClosed, 0)
	for after, failed := range map[time.Duration]bool{2500 * time.Millisecond: true, 61 * time.Second: true, 62 * time.Second: false} {
		d.Keep(process(1), Record{}, b)
		if _, got := d.Recall(process(1), noon.Add(after)); (got.Cause != nil) != failed {
			t.Errorf("after %v: %+v", after, got)
		}
	}
}
