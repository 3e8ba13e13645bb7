package lnd

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Given any number of peers that each give cause for lines, when they go on for an
// hour, then few are written, each says how many were not, all are accounted for,
// and what is not about a peer is written as ever.
func TestBoundedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := BoundedLog(slog.New(slog.NewTextHandler(&out, nil))).With("nid", "10.0.0.1@tcp")
		const hours, perMinute = 1, 5000
		for minute := range hours * 60 {
			for k := range perMinute {
				l.Info("connections closed", "peer", fmt.Sprintf("12345-10.1.%d.%d@tcp", k/250, k%250))
			}
			l.Warn("protocol error", "from", "12345-10.1.0.1@tcp")
			l.Info("routing starts", "minute", minute)
			time.Sleep(time.Minute)
		}
		l.Info("connections closed", "peer", "12345-10.9.9.9@tcp")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		count := map[string]int{}
		told := 0
		for _, line := range lines {
			for _, m := range []string{"connections closed", "protocol error", "routing starts"} {
				if strings.Contains(line, m) {
					count[m]++
				}
			}
			if strings.Contains(line, "connections closed") {
				var skipped, others int
				if _, rest, ok := strings.Cut(line, " not_logged="); ok {
					if _, err := fmt.Sscanf(rest, "%d not_logged_others=%d", &skipped, &others); err != nil {
						t.Fatal(line, err)
					}
				}
				told += 1 + skipped + others
			}
		}
		if c := count["connections closed"]; c > (hours*60+1)*boundedPeers {
			t.Errorf("%d lines of %d", c, hours*60*perMinute)
		}
		if told != hours*60*perMinute+1 {
			t.Errorf("the lines tell of %d, want %d", told, hours*60*perMinute+1)
		}
		if count["protocol error"] != hours*60 || count["routing starts"] != hours*60 {
			t.Errorf("of others %v", count)
		}
	})
}

// Given lines at debug, when there are very many, then those beyond the bound are
// counted; a logger that is about one peer is bounded too.
func TestBoundedLogAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := BoundedLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for range 100_000 {
			l.Debug("message dropped")
		}
		time.Sleep(time.Second)
		l.Debug("message dropped")
		if n := strings.Count(out.String(), "\n"); n != boundedDebug.Burst+1 {
			t.Errorf("%d lines", n)
		}
		if want := fmt.Sprintf("not_logged_others=%d\n", 100_000-boundedDebug.Burst); !strings.HasSuffix(out.String(), want) {
			t.Errorf("the last line is %q, want %q in it", out.String()[max(0, out.Len()-200):], want)
		}
		out.Reset()
		one := l.With("peer", "10.0.0.2@tcp")
		for range 10 {
			one.Info("restarted")
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines of one peer", n)
		}
		BoundedLog(nil).Info("nothing")
	})
}
