package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// The round-trip time is printed on a terminal and with --verbose, and always as JSON. Otherwise the output is that of
// lnetctl. On a terminal the timeout is shorter, unless the option sets it.
func TestRoundTripTimes(t *testing.T) {
	n := newCannedNode()
	patience := make(chan time.Duration, 1)
	n.PingFunc = func(ctx context.Context, to lnet.ProcessID, _ lnet.NID) (api.PingResult, error) {
		deadline, _ := ctx.Deadline()
		patience <- time.Until(deadline)
		return api.PingResult{Primary: to.NID, PID: to.PID, NIDs: []lnet.NID{to.NID}, RTT: 412_345}, nil
	}
	t.Setenv("LNETD_CONTROL_SOCKET", serve(t, n))
	const line = "  rtt: 0.412 ms"
	for _, tt := range []struct {
		line     string
		terminal bool
		want     string
		// The timeout is within these.
		shortest, longest time.Duration
	}{
		{"ping 10.0.0.1@tcp", false, "", time.Minute, api.PingTimeout},
		{"ping -v 10.0.0.1@tcp", false, line, time.Minute, api.PingTimeout},
		{"ping --json 10.0.0.1@tcp", false, `"rtt_nsec": 412345`, time.Minute, api.PingTimeout},
		{"ping 10.0.0.1@tcp", true, line, 0, terminalPingTimeout * time.Second},
		{"ping -t 60 10.0.0.1@tcp", true, line, terminalPingTimeout * time.Second, time.Minute},
	} {
		got := runOn(t, tt.terminal, words(tt.line))
		if got.status != exitOK || strings.Contains(got.stdout, "rtt") != (tt.want != "") || !strings.Contains(got.stdout, tt.want) {
			t.Errorf("%s, terminal %v: %+v", tt.line, tt.terminal, got)
		}
		if left := <-patience; left > tt.longest || left < tt.shortest {
			t.Errorf("%s, terminal %v: timeout %v", tt.line, tt.terminal, left)
		}
	}
}
