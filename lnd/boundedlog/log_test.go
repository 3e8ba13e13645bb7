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

// textLog is a Log and what it has written, without times.
func textLog(level slog.Level) (*Log, *bytes.Buffer) {
	var out bytes.Buffer
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

func linesOf(out *bytes.Buffer) []string {
	lines := strings.Split(out.String(), "\n")
	return lines[:len(lines)-1]
}

// Given a peer that refuses every two seconds and answers in the end, when nothing
// further happens, then there is a line a minute that tells how many there were,
// and the last one says how it ended.
func TestLogTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		defer b.End()
		l := b.With("nid", "10.0.0.1@tcp")
		of := AboutPeer(nidOf("10.0.0.2@tcp"))
		for range 50 {
			l.Tell(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "c", Of: of}, slog.Any("cause", io.EOF))
			time.Sleep(2 * time.Second)
		}
		l.Tell(Line{Level: slog.LevelInfo, Text: "peer answers again", Cause: "c", Of: of})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []string{
			`level=WARN msg="connect failed" nid=10.0.0.1@tcp peer=10.0.0.2@tcp cause=EOF`,
			`level=WARN msg="connect failed" nid=10.0.0.1@tcp peer=10.0.0.2@tcp cause=EOF more=28 within=58s ago=2s`,
			`level=WARN msg="peer answers again" nid=10.0.0.1@tcp peer=10.0.0.2@tcp more=20 within=1m0s ago=20s`,
		}
		if d := cmp.Diff(want, linesOf(out)); d != "" {
			t.Error(d)
		}
	})
}

// Given a switch that dies, with hundreds of peers behind it that are tried again
// every ten seconds, when ten minutes have passed, then the first few have a line
// each, and the others one a minute together, which names some.
func TestLogOfManyPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		for range 60 {
			for k := range 400 {
				b.Tell(Line{Level: slog.LevelWarn, Text: "connect failed", Of: AboutPeer(nidOf(fmt.Sprintf("10.0.%d.%d@tcp", k/100, 1+k%100)))},
					slog.Any("cause", errors.New("no route to host")))
			}
			time.Sleep(10 * time.Second)
		}
		b.End()
		lines := linesOf(out)
		t.Logf("%d lines of 24000 in 10 minutes:\n%s", len(lines), strings.Join(lines, "\n"))
		if n := len(lines); n > causeFew+12 {
			t.Errorf("%d lines", n)
		}
		if want := `peers=398 examples="[10.0.0.100@tcp 10.0.0.10@tcp 10.0.0.11@tcp]"`; !strings.Contains(lines[causeFew], want) {
			t.Errorf("%q is not in %q", want, lines[causeFew])
		}
		if told := eventsOf(t, lines); told != 24000 {
			t.Errorf("the lines tell of %d", told)
		}
	})
}

// eventsOf is of how many events lines tell.
func eventsOf(t *testing.T, lines []string) (n int) {
	t.Helper()
	number := regexp.MustCompile(` (?:more|others)=(\d+)`)
	for _, line := range lines {
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

// Given callers from a million addresses, when each comes once within an hour, then
// memory and log stay small, and all are accounted for.
func TestLogOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		const callers = 1_000_000
		a := netip.MustParseAddr("10.0.0.0")
		for range callers {
			a = a.Next()
			b.Tell(Line{Level: slog.LevelInfo, Text: "caller refused", Of: AboutCaller(a)}, slog.String("reason", "magic"))
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
		if n := len(lines); n > (causeFew+1)*61 {
			t.Errorf("%d lines in an hour", n)
		}
		if told := eventsOf(t, lines); told != callers {
			t.Errorf("the lines tell of %d", told)
		}
	})
}

// Given lines at debug, when there are very many, then those beyond the bound are
// counted, with Tell and without; what is below the level costs no place.
func TestLogAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelDebug)
		defer b.End()
		for range 50_000 {
			b.Debug("message dropped")
			b.Tell(Line{Level: slog.LevelDebug, Text: "caller refused"})
		}
		time.Sleep(time.Second)
		b.Debug("message dropped")
		if n := len(linesOf(out)); n != debugRate.Burst+1 {
			t.Errorf("%d lines", n)
		}
		if want := fmt.Sprintf("not_logged=%d\n", 100_000-debugRate.Burst); !strings.HasSuffix(out.String(), want) {
			t.Errorf("the last line is %q, want %q in it", out.String()[max(0, out.Len()-200):], want)
		}
		warn, out := textLog(slog.LevelWarn)
		defer warn.End()
		warn.Tell(Line{Level: slog.LevelInfo, Text: "peer answers again", Cause: "c"})
		warn.Tell(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "c"})
		if d := cmp.Diff([]string{`level=WARN msg="connect failed"`}, linesOf(out)); d != "" {
			t.Error(d)
		}
	})
}

// Given two logs of which one came out of the other, when both tell of one cause, then
// they are bounded together, and the first one's End tells what is left, once.
func TestLogsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := textLog(slog.LevelInfo)
		other := New(b.With("nid", "10.0.0.1@tcp").Logger)
		l := Line{Level: slog.LevelWarn, Text: "peer does not answer", Cause: "c", Of: About("peer", "a")}
		b.Tell(l)
		other.Tell(l)
		b.Tell(l)
		other.End()
		b.Warn("the program's own", "k", 1)
		b.End()
		b.End()
		b.Tell(l)
		want := []string{
			`level=WARN msg="peer does not answer" peer=a`,
			`level=WARN msg="the program's own" k=1`,
			`level=WARN msg="peer does not answer" peer=a more=1`,
		}
		if d := cmp.Diff(want, linesOf(out)); d != "" {
			t.Error(d)
		}
		New(nil).Tell(l)
	})
}

// Given events that had no line yet, when the level is raised above them, then they have none
// any more.
func TestLogObeysItsLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var level slog.LevelVar
		b := New(slog.New(deafToLevels{slog.NewTextHandler(&out, nil), &level}))
		l := Line{Level: slog.LevelInfo, Text: "peer restarted", Of: About("peer", "a")}
		b.Tell(l)
		b.Tell(l)
		level.Set(slog.LevelError)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.End()
		if n := len(linesOf(&out)); n != 1 {
			t.Errorf("%d lines: %s", n, &out)
		}
	})
}

// deafToLevels writes whatever it is told to, as handlers may.
type deafToLevels struct {
	slog.Handler
	level *slog.LevelVar
}

func (h deafToLevels) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Given several goroutines that tell while the timer runs, when the log ends among
// them, then all come to their end.
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
				b.Tell(Line{Level: slog.LevelInfo, Text: texts[g%3], Of: About("peer", texts[k%len(texts)])})
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

// aMinuteOn is as if a minute had passed and the timer had gone off, which after the
// end it does not.
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

// A line that is not written costs nothing that is worth it.
func BenchmarkSuppressed(b *testing.B) {
	l := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer l.End()
	of := AboutPeer(nidOf("10.0.0.2@tcp"))
	tell := func() {
		l.Tell(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "connections", Of: of}, slog.Any("cause", io.EOF))
	}
	tell()
	b.ReportAllocs()
	for b.Loop() {
		tell()
	}
}

// Nor does one below the level.
func BenchmarkBelow(b *testing.B) {
	l := New(slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})))
	defer l.End()
	of := AboutPeer(nidOf("10.0.0.2@tcp"))
	b.ReportAllocs()
	for b.Loop() {
		l.Tell(Line{Level: slog.LevelWarn, Text: "connect failed", Of: of}, slog.Any("cause", io.EOF))
	}
}

func TestSuppressedAllocatesNothing(t *testing.T) {
	l, _ := textLog(slog.LevelInfo)
	defer l.End()
	of := AboutPeer(nidOf("10.0.0.2@tcp"))
	tell := func() {
		l.Tell(Line{Level: slog.LevelWarn, Text: "connect failed", Cause: "connections", Of: of}, slog.Any("cause", io.EOF), slog.Int("count", 3))
	}
	tell()
	if n := testing.AllocsPerRun(100, tell); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func nidOf(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}
