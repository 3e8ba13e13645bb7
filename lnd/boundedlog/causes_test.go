package boundedlog

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// singleMost is the largest number of lines about one subject of a cause in a minute: one, a more severe one, a
// recovery, and another recovery after a summary of several subjects.
const singleMost = 4

// TestCausesAreBounded: given events with several causes and subjects at random times, when expire
// is called whenever it is due, then there are at most four lines a minute for each cause and subject,
// and each cause keeps its budget. No event is reported more than a minute late, all
// events are counted, and in the end no record is left.
func TestCausesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c causes
		subjects := rapid.SampledFrom([]int{1, 2, 4, 40, 3 * subjectsMost}).Draw(t, "subjects")
		most := rapid.SampledFrom([]time.Duration{20 * time.Millisecond, time.Second, 20 * time.Second, 3 * time.Minute}).Draw(t, "pause")
		random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		w := witness{t: t, single: map[string][]time.Duration{}, all: map[string][]time.Duration{}}
		now, events := time.Duration(1), uint64(0)
		for range 3000 {
			next := now + time.Duration(random.Int64N(int64(most)))
			for c.due != 0 && c.due < next {
				now = max(now, c.due)
				for _, r := range c.expire(now, false) {
					w.late(now, &r)
				}
			}
			now = next
			l := Line{
				Level: slog.LevelInfo + slog.Level(4*random.IntN(2)), Text: fmt.Sprint("text ", random.IntN(2)),
				Cause: fmt.Sprint("cause ", random.IntN(2)), Of: About("peer", fmt.Sprint(random.IntN(subjects))),
			}
			l.Recovery = l.Level < slog.LevelWarn && random.IntN(2) == 0
			events++
			if v := c.note(now, &l, nil, nil); v.write {
				w.line(now, l.Cause, l.Of.String(), 1+v.more)
			}
		}
		for _, r := range c.expire(now, true) {
			w.told += 1 + r.more + r.others
		}
		if w.told != events {
			t.Fatalf("%d events were told of, of %d", w.told, events)
		}
		for k := 0; c.due != 0; k++ {
			if now = c.due; k > 100 {
				t.Fatal("it never ends")
			}
			if late := c.expire(now, false); len(late) > 0 {
				t.Fatalf("%d lines come too late", len(late))
			}
		}
		for name, k := range c.list {
			if len(k.subjects) > 0 {
				t.Fatalf("%d subjects of %s are left", len(k.subjects), name)
			}
		}
	})
}

// witness checks the lines.
type witness struct {
	t      *rapid.T
	single map[string][]time.Duration // by cause and subject
	all    map[string][]time.Duration // by cause
	told   uint64
}

func (w *witness) late(now time.Duration, r *report) {
	if max(r.ago, r.within) > causeInterval+causeLook {
		w.t.Fatalf("at %s: %s is told %s late", now, r.Cause, r.within)
	}
	if r.subjects > 1 {
		w.all[r.Cause] = w.count(now, r.Cause, w.all[r.Cause], causeFew+1+2*causeNews)
		w.told += 1 + r.more + r.others
		return
	}
	w.line(now, r.Cause, r.Of.String(), 1+r.more+r.others)
}

func (w *witness) line(now time.Duration, cause, of string, events uint64) {
	w.all[cause] = w.count(now, cause, w.all[cause], causeFew+1+2*causeNews)
	w.single[cause+of] = w.count(now, cause+" "+of, w.single[cause+of], singleMost)
	w.told += events
}

// count records the time of a line. It fails the test if there are more than most lines in the
// interval that ends now.
func (w *witness) count(now time.Duration, what string, times []time.Duration, most int) []time.Duration {
	times = append(times, now)
	if k := len(times) - 1 - most; k >= 0 && now-times[k] < causeInterval {
		w.t.Fatalf("at %s: more than %d lines within a minute: %s: %v", now, most, what, times[k:])
	}
	return times
}
