package perf

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script is an arm with given times per exchange, round by round. It records its turns.
type script struct {
	name  string
	each  []time.Duration
	next  int
	turns *[]string
}

func (s *script) open(context.Context, string) error { return nil }
func (s *script) close(context.Context) error        { return nil }

func (s *script) run(_ context.Context, _ Method, n int, calls bool) (Round, error) {
	if calls {
		*s.turns = append(*s.turns, s.name+" counts")
		return Round{Asks: Cost{Syscalls: 4}, Answers: Cost{Syscalls: 5}}, nil
	}
	*s.turns = append(*s.turns, s.name)
	each := s.each[s.next%len(s.each)]
	s.next++
	return Round{Took: each * time.Duration(n), Asks: Cost{Wakeups: 1}, Answers: Cost{Wakeups: 2}}, nil
}

// Rounds alternate in pairs, and a machine that becomes slower does not affect their ratio.
func TestAgainst(t *testing.T) {
	us := time.Microsecond
	var turns []string
	without := &script{name: "A", each: []time.Duration{40 * us, 40 * us, 80 * us, 160 * us, 320 * us}, turns: &turns}
	with := &script{name: "B", each: []time.Duration{20 * us, 20 * us, 40 * us, 80 * us, 160 * us}, turns: &turns}
	c := Config{Rounds: 4, Time: time.Millisecond}
	cases := tests()
	r, err := pairedComparison(t.Context(), &c, [2]benchPair{without, with}, &cases[0])
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("A B A B B A A B B A")
	if diff := cmp.Diff(want, turns[:len(want)]); diff != "" {
		t.Errorf("turns:\n%s", diff)
	}
	if n := len(turns) - len(want); n != 2*countedRounds {
		t.Errorf("%d rounds count system calls", n)
	}
	if r.Ratio != (Spread{0.5, 0.5, 0.5, 0.5, 0.5}) || r.Verdict != better {
		t.Errorf("ratio %v, %s", r.Ratio, r.Verdict)
	}
	if r.Without.Asks[Wakeups].Median != 1 || r.With.Answers[Wakeups].Median != 2 || r.With.Answers[Syscalls].Median != 5 {
		t.Errorf("costs %+v, %+v", r.Without, r.With)
	}
	var out strings.Builder
	if err := PrintAgainst(&out, [2]string{"without", "GOMAXPROCS=1"}, [2]string{"without", "with"}, []*Comparison{r}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"GOMAXPROCS=1", "0.50..0.50", better, "1.00+2.00", "4.00+5.00", "-+-"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, &out)
		}
	}
}

func TestVerdict(t *testing.T) {
	spread := func(q1, median, q3 float64) Spread { return Spread{Q1: q1, Median: median, Q3: q3} }
	for _, c := range []struct {
		unit  unit
		ratio Spread
		want  string
	}{
		{microseconds, spread(0.8, 0.9, 0.95), better},
		{microseconds, spread(1.1, 1.2, 1.3), worse},
		{microseconds, spread(0.9, 0.95, 1.01), inconclusive},
		{microseconds, spread(0.992, 0.995, 0.999), inconclusive},
		{perSecond, spread(1.1, 1.2, 1.3), better},
		{gigabytes, spread(0.8, 0.9, 0.95), worse},
		{perSecond, spread(0.9, 1.1, 1.2), inconclusive},
	} {
		if got := (&test{unit: c.unit}).verdict(c.ratio); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.unit, c.ratio, got, c.want)
		}
	}
}
