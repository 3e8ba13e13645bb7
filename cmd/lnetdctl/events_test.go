package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
)

// Events are lines of text, in which nothing can change the terminal, or with --json the lines of lnetd.
func TestEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.Local)
	stamp := at.Format(time.RFC3339Nano)
	sent := `{"time":"` + stamp + `","kind":"lost","level":"warn","text":"events are missing","lost":7}
{"number":8,"time":"` + stamp + `","kind":"ni","level":"warn","subject":"10.0.0.1@tcp","text":"link changed","details":{"link":"down","cause":"no carrier"}}
{"number":9,"time":"` + stamp + `","kind":"client","level":"info","subject":"7","text":"client gone","details":{"program":"a\u001b[31m"}}
`
	d := &controltest.Daemon{EventsFunc: func(f api.EventFilter) server.Stream {
		lines := make(chan string, 1)
		lines <- sent
		close(lines)
		return controltest.Lines(lines)
	}}
	got := runProgram(program{}, "events", "--control-socket", serve(t, d))
	want := ran{`2026-01-02 03:04:05.678 warn  lost          events are missing: 7
2026-01-02 03:04:05.678 warn  ni            10.0.0.1@tcp: link changed cause="no carrier" link=down
2026-01-02 03:04:05.678 info  client        7: client gone program="a\x1b[31m"
`, "", 0}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
	got = runProgram(program{}, "events", "--json", "--control-socket", serve(t, d))
	if diff := cmp.Diff(ran{sent, "", 0}, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// The options of events reach lnetd, and those that are invalid do not.
func TestEventsOptions(t *testing.T) {
	var asked []api.EventFilter
	d := &controltest.Daemon{EventsFunc: func(f api.EventFilter) server.Stream {
		f.Since = f.Since.UTC()
		asked = append(asked, f)
		return controltest.Lines(nil)
	}}
	socket := serve(t, d)
	got := runProgram(program{}, "events", "--since", "2026-01-02T03:04:05Z", "--kind", "ni,health", "-k", "peer", "-f", "--control-socket", socket)
	if got != (ran{}) {
		t.Errorf("%+v", got)
	}
	want := []api.EventFilter{{Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kinds: []string{"health", "ni", "peer"}, Follow: true}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	for option, says := range map[string]string{
		"--since=-5m":     "option '--since': '-5m' is neither a duration",
		"--since=tuesday": "option '--since': 'tuesday' is neither a duration",
		"--kind=nis":      `"nis" is not a kind of event; the kinds are ni, health, `,
	} {
		got := runProgram(program{}, "events", option, "--control-socket", socket)
		if got.status != exitInvalid || got.stdout != "" || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", option, got)
		}
	}
	if len(asked) != 1 {
		t.Errorf("lnetd was asked %d times", len(asked))
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.FixedZone("", 3600))
	for given, want := range map[string]string{
		"90s":                  "2026-01-02T11:58:30+01:00",
		"36h":                  "2026-01-01T00:00:00+01:00",
		"03:04:05":             "2026-01-02T03:04:05+01:00",
		"12:00:00":             "2026-01-02T12:00:00+01:00",
		"23:55:00":             "2026-01-01T23:55:00+01:00",
		"2026-01-01 03:04:05":  "2026-01-01T03:04:05+01:00",
		"2026-01-01":           "2026-01-01T00:00:00+01:00",
		"2026-01-01T03:04:05Z": "2026-01-01T03:04:05Z",
	} {
		if got, err := parseSince(given, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v; want %s", given, got.Format(time.RFC3339), err, want)
		}
	}
	for _, given := range []string{"2026-01-02 12:00:01", "2026-01-03", "2026-01-02T11:00:01Z"} {
		if got, err := parseSince(given, now); err == nil || !strings.HasSuffix(err.Error(), "is in the future") {
			t.Errorf("%s: %s, %v", given, got.Format(time.RFC3339), err)
		}
	}
}
