package perf

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Two lnetd with a program each, all in this process, are measured briefly. Each case has a line with a
// figure for each way.
func TestHostedPrintsEveryCase(t *testing.T) {
	c := DefaultHostConfig(t.TempDir())
	c.Server, c.Client = netip.MustParseAddr("127.11.2.3"), netip.MustParseAddr("127.11.2.2")
	c.Own = netip.MustParseAddr("127.11.2.4")
	c.Rounds, c.Time, c.first, c.Port = 1, time.Microsecond, fewExchanges, freePort(t, c.Server, c.Client, c.Own)
	if testenv.Race { // polling would take the processors from the other ends
		c.Only = regexp.MustCompile("notified|bulk|asynchronous")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ends []chan error
	start := func(serve func(ready func()) error) {
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- serve(func() { close(ready) }) }()
		select {
		case <-ready:
			ends = append(ends, ended)
		case err := <-ended:
			t.Fatal(err)
		}
	}
	for _, far := range []bool{false, true} {
		start(func(ready func()) error { return ServeHost(ctx, c, far, ready) })
	}
	guests, leave := context.WithCancel(ctx)
	defer leave()
	start(func(ready func()) error { return ServeGuest(guests, c, true, PlainFiles{}, ready) })
	var out strings.Builder
	results, err := RunHosted(ctx, c, func(f PlainFiles) error {
		start(func(ready func()) error { return ServeGuest(guests, c, false, f, ready) })
		return nil
	}, func(*HostedResult) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := PrintHosted(&out, results, true); err != nil {
		t.Fatal(err)
	}
	leave()
	for k := range ends {
		if k == 2 { // the guests have ended
			cancel()
		}
		if err := <-ends[len(ends)-1-k]; err != nil {
			t.Error(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	wanted := slices.DeleteFunc(hostedTests(), func(x hostedTest) bool { return c.Only != nil && !c.Only.MatchString(x.name) })
	blank := slices.Index(lines, "")
	if blank != 1+len(wanted) {
		t.Fatalf("%d lines, want %d:\n%s", blank, 1+len(wanted), &out)
	}
	if !strings.Contains(out.String(), "rounds ") || !strings.Contains(out.String(), " p99.9 ") {
		t.Errorf("no details in\n%s", &out)
	}
	for _, r := range results {
		if l := r.LNetLatency; (l != nil) != (r.Unit == microseconds.String()) || l != nil && (l.P50 <= 0 || l.P999 < l.P50 || l.Max < l.P999) {
			t.Errorf("%s: latency %+v", r.Case, l)
		}
	}
	for _, r := range results {
		for _, cost := range []string{Bells, Wakeups, Allocs} {
			if _, ok := r.Asks[cost]; !ok {
				t.Errorf("%s: no %s", r.Case, cost)
			}
		}
	}
	for k, x := range wanted {
		if line := lines[1+k]; !strings.HasPrefix(line, x.name) || !strings.Contains(line, x.floor.String()) || strings.Contains(line, "NaN") {
			t.Errorf("%q is not of %q", line, x.name)
		}
	}
}
