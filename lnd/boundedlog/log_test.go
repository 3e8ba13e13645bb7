package boundedlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// output is what a Log has written. It is safe for concurrent use, because timers write too.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
}

// textLog returns a Log and the lines that it writes, without times.
func textLog(level slog.Level) (*Log, *output) {
	var out output
	return New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && groups == nil {
				return slog.Attr{}
			}
			return a
		},
	}))), &out
}

func linesOf(out fmt.Stringer) []string {
	lines := strings.Split(out.String(), "\n")
	return lines[:len(lines)-1]
}

// TestLogTells: given a peer that refuses every two seconds and finally answers, when nothing else
// happens, then one line a minute reports the number of events, and the last one reports at once
// that the peer answers.
func TestLogTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		defer b.End()
		l := b.With("nid", "10.0.0.1@tcp")
		of := AboutPeer(nidOf("10.0.0.2@tcp"))
		for range 50 {
			l.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "c", Of: of}, slog.Any("cause", io.EOF))
			time.Sleep(2 * time.Second)
		}
		l.Report(Line{Level: slog.LevelInfo, Text: "peer answers again", Cause: "c", Of: of, Recovery: true})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []string{
			`level=WARN msg="connect failed" nid=10.0.0.1@tcp peer=10.0.0.2@tcp cause=EOF`,
			`level=WARN msg="connect failed" nid=10.0.0.1@tcp peer=10.0.0.2@tcp cause=EOF more=28 within=58s ago=2s`,
			`level=INFO msg="peer answers again" nid=10.0.0.1@tcp peer=10.0.0.2@tcp more=20 within=40s`,
		}
		if d := cmp.Diff(want, linesOf(out)); d != "" {
			t.Error(d)
		}
	})
}

// TestLogOfManyPeers: given hundreds of peers behind a dead switch, which are called every ten
// seconds, when ten minutes pass, then as many peers as the budget permits have a line each. The
// others share one line a minute. It names peers that no line has named before, so that every peer
// is named, and a line and the counters say that the budget was used up.
func TestLogOfManyPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		for range 60 {
			for k := range 400 {
				b.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Of: AboutPeer(nidOf(fmt.Sprintf("10.0.%d.%d@tcp", k/100, 1+k%100)))},
					slog.Any("cause", errors.New("no route to host")))
			}
			time.Sleep(10 * time.Second)
		}
		b.End()
		lines := linesOf(out)
		t.Logf("%d lines of 24000 in 10 minutes:\n%s", len(lines), strings.Join(lines, "\n"))
		if n := len(lines); n > causeNews+1+12 {
			t.Errorf("%d lines", n)
		}
		if want := `level=WARN msg="` + textFull + `" event="connect failed"`; lines[causeNews] != want {
			t.Errorf("line %d is %q, want %q", causeNews, lines[causeNews], want)
		}
		if want := `peers=384 examples="[10.0.0.100@tcp 10.0.0.17@tcp 10.0.0.18@tcp `; !strings.Contains(lines[causeNews+1], want) {
			t.Errorf("%q is not in %q", want, lines[causeNews+1])
		}
		named := map[string]bool{}
		for _, nid := range regexp.MustCompile(`10\.0\.\d+\.\d+@tcp`).FindAllString(out.String(), -1) {
			named[nid] = true
		}
		if len(named) != 400 {
			t.Errorf("%d peers are named", len(named))
		}
		if got, want := b.Stats(), (Stats{Summarized: 24000 - causeNews, OverBudget: 400 - causeNews}); got != want {
			t.Errorf("counters: %+v, want %+v", got, want)
		}
		if told := eventsOf(t, lines); told != 24000 {
			t.Errorf("the lines tell of %d", told)
		}
	})
}

// TestLogOfNoisyNeighbours: given peers that fail all the time, when another peer fails for the first
// time and recovers, then both are logged at once. It does not fail for the first time again soon.
func TestLogOfNoisyNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		defer b.End()
		report := func(peer int, l Line) {
			l.Cause, l.Of = "c", AboutPeer(nidOf(fmt.Sprintf("10.0.0.%d@tcp", peer)))
			b.Report(l)
		}
		failed := Line{Level: slog.LevelWarn, Text: "connect failed"}
		back := Line{Level: slog.LevelInfo, Text: "peer answers again", Recovery: true}
		noise := func(d time.Duration) {
			for range d / time.Second {
				for peer := range 20 {
					report(1+peer, failed)
				}
				time.Sleep(time.Second)
			}
			synctest.Wait()
		}
		wantNew := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, line := range linesOf(out) {
				if strings.Contains(line, "10.0.0.200@tcp") {
					got = append(got, line)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got): %s", when, d)
			}
			out.Reset()
		}
		noise(5*time.Minute + 10*time.Second)
		report(200, failed)
		wantNew("the first failure", `level=WARN msg="connect failed" peer=10.0.0.200@tcp`)
		report(200, back)
		wantNew("the recovery", `level=INFO msg="peer answers again" peer=10.0.0.200@tcp`)
		report(200, failed)
		report(200, back)
		wantNew("flapping")
		noise(3 * time.Minute)
		out.Reset()
		report(200, failed)
		wantNew("after three good minutes", `level=WARN msg="connect failed" peer=10.0.0.200@tcp`)
	})
}

// TestLogRemembersFailures: given a peer that failed minutes ago, when other peers have used the budget for
// repeated failures, then its next failure waits for the summary, as the peer did not recover.
func TestLogRemembersFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		defer b.End()
		fail := func(name string) {
			b.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Of: About("peer", name)})
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			fail(name)
		}
		if n := len(linesOf(out)); n != 4 {
			t.Errorf("%d lines about first failures, want 4", n)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		out.Reset()
		for _, name := range []string{"a", "b", "c", "d"} {
			fail(name)
		}
		if n := len(linesOf(out)); n != causeFew {
			t.Errorf("%d lines about repeated failures, want %d", n, causeFew)
		}
		time.Sleep(causeMemory + causeInterval)
		synctest.Wait()
		out.Reset()
		for _, name := range []string{"a", "b", "c", "d"} {
			fail(name)
		}
		if n := len(linesOf(out)); n != 4 {
			t.Errorf("%d lines about failures after a long time, want 4", n)
		}
	})
}

// eventsOf returns the number of events that lines report.
func eventsOf(t *testing.T, lines []string) (n int) {
	t.Helper()
	number := regexp.MustCompile(` (?:more|others)=(\d+)`)
	for _, line := range lines {
		if strings.Contains(line, textFull) {
			continue
		}
		n++
		for _, m := range number.FindAllStringSubmatch(line, -1) {
			var k int
			if _, err := fmt.Sscan(m[1], &k); err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}
	return n
}

// TestLogOfStrangers: given callers from a million addresses, when each calls once within an hour,
// then memory and log stay small, and all calls are counted.
func TestLogOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		const callers = 1_000_000
		a := netip.MustParseAddr("10.0.0.0")
		for range callers {
			a = a.Next()
			b.Report(Line{Level: slog.LevelInfo, Text: "caller refused", Of: AboutCaller(a)}, slog.String("reason", "magic"))
			time.Sleep(time.Hour / callers)
			b.core.mu.Lock()
			n := len(b.core.causes.list["caller refused"].subjects)
			b.core.mu.Unlock()
			if n > subjectsMost {
				t.Fatalf("%d subjects", n)
			}
		}
		b.End()
		lines := linesOf(out)
		if n := len(lines); n > (causeFew+2)*61 {
			t.Errorf("%d lines in an hour", n)
		}
		if told := eventsOf(t, lines); told != callers {
			t.Errorf("the lines tell of %d", told)
		}
	})
}

// TestLogAtDebug: given very many lines at debug, then those above the limit are only counted, with
// Report and without. Lines below the level do not count against the limit.
func TestLogAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelDebug)
		defer b.End()
		for range 50_000 {
			b.Debug("message dropped")
			b.Report(Line{Level: slog.LevelDebug, Text: "caller refused"})
		}
		time.Sleep(time.Second)
		b.Debug("message dropped")
		if n := len(linesOf(out)); n != debugRate.Burst+1 {
			t.Errorf("%d lines", n)
		}
		if want := fmt.Sprintf("not_logged=%d\n", 100_000-debugRate.Burst); !strings.HasSuffix(out.String(), want) {
			t.Errorf("the last line is %q, want %q in it", out.String()[max(0, len(out.String())-200):], want)
		}
		warn, out := textLog(slog.LevelWarn)
		defer warn.End()
		warn.Report(Line{Level: slog.LevelInfo, Text: "peer answers again", Cause: "c"})
		warn.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "c"})
		if d := cmp.Diff([]string{`level=WARN msg="connect failed"`}, linesOf(out)); d != "" {
			t.Error(d)
		}
	})
}

// TestLogsTogether: given a log that was created from another one, when both report the same cause,
// then they share its limits. End of the first one writes what is left, once.
func TestLogsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		other := New(b.With("nid", "10.0.0.1@tcp").Logger)
		l := Line{Level: slog.LevelWarn, Text: "peer does not answer", Cause: "c", Of: About("peer", "a")}
		b.Report(l)
		other.Report(l)
		b.Report(l)
		other.End()
		b.Warn("the program's own", "k", 1)
		b.End()
		b.End()
		b.Report(l)
		want := []string{
			`level=WARN msg="peer does not answer" peer=a`,
			`level=WARN msg="the program's own" k=1`,
			`level=WARN msg="peer does not answer" peer=a more=1`,
		}
		if d := cmp.Diff(want, linesOf(out)); d != "" {
			t.Error(d)
		}
		New(nil).Report(l)
	})
}

// TestLogObeysItsLevel: given events that have had no line yet, when the level is raised above
// theirs, then they are not logged.
func TestLogObeysItsLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var level slog.LevelVar
		b := New(slog.New(deafToLevels{slog.NewTextHandler(&out, nil), &level}))
		l := Line{Level: slog.LevelInfo, Text: "peer restarted", Of: About("peer", "a")}
		b.Report(l)
		b.Report(l)
		level.Set(slog.LevelError)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.End()
		if n := len(linesOf(&out)); n != 1 {
			t.Errorf("%d lines: %s", n, &out)
		}
	})
}

// deafToLevels writes lines of every level, as handlers may.
type deafToLevels struct {
	slog.Handler
	level *slog.LevelVar
}

func (h deafToLevels) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// TestLogAtOnce: given several goroutines that log while the timer runs, when the log ends
// meanwhile, then none of them blocks.
func TestLogAtOnce(t *testing.T) {
	b, _ := textLog(slog.LevelInfo)
	var work sync.WaitGroup
	underway := make(chan struct{})
	for g := range 8 {
		work.Go(func() {
			for k := range 2000 {
				if g == 0 && k == 1000 {
					close(underway)
				}
				b.Report(Line{Level: slog.LevelInfo, Text: texts[g%3], Of: About("peer", texts[k%len(texts)])})
				if k%100 == 0 && aMinuteOn(b.core) {
					b.core.expire()
				}
			}
		})
	}
	<-underway
	b.End()
	work.Wait()
	b.End()
}

// aMinuteOn simulates that a minute has passed and the timer has fired. It returns false after the
// end, when the timer does not fire.
func aMinuteOn(c *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.begin = c.begin.Add(-time.Minute)
	c.disarm()
	c.running.Add(1)
	return true
}

var texts = []string{"a", "b", "c", "d", "e", "f", "g"}

// BenchmarkSuppressed measures a line that is not written because of the limits.
func BenchmarkSuppressed(b *testing.B) {
	l := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer l.End()
	of := AboutPeer(nidOf("10.0.0.2@tcp"))
	tell := func() {
		l.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "connections", Of: of}, slog.Any("cause", io.EOF))
	}
	tell()
	b.ReportAllocs()
	for b.Loop() {
		tell()
	}
}

// BenchmarkBelow measures a line below the log's level.
func BenchmarkBelow(b *testing.B) {
	l := New(slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})))
	defer l.End()
	of := AboutPeer(nidOf("10.0.0.2@tcp"))
	b.ReportAllocs()
	for b.Loop() {
		l.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Of: of}, slog.Any("cause", io.EOF))
	}
}

func TestSuppressedAllocatesNothing(t *testing.T) {
	out := slog.New(slog.NewTextHandler(io.Discard, nil))
	for name, l := range map[string]*Log{"unwatched": New(out), "watched": NewWatched(out, &recorder{refused: 1 << 30})} {
		defer l.End()
		of := AboutPeer(nidOf("10.0.0.2@tcp"))
		tell := func() {
			l.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "connections", Of: of}, slog.Any("cause", io.EOF), slog.Int("count", 3))
		}
		tell()
		if n := testing.AllocsPerRun(100, tell); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func nidOf(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}
