package daemon

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// The start waits for an interface that gets its link shortly afterwards, as at boot. It gives up
// on one that never gets it.
func TestWaitForLink(t *testing.T) {
	tests := []struct {
		name    string
		events  []socklnd.Device
		pending bool
		device  string // the interface that is used; empty means loopback
		took    time.Duration
	}{
		{"comes", []socklnd.Device{device("eth0", "192.0.2.5/24")}, true, "eth0", 0},
		{"never comes", nil, true, "", linkPatience},
		{"nothing to wait for", nil, false, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := host(lo)
				n.events = tt.events
				found := tcp{network: n, linkPending: func() bool { return tt.pending }}
				var log bytes.Buffer
				begin := time.Now()
				ni, err := found.find(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
				if err != nil || ni.Net.String() != "tcp" || ni.Device != tt.device {
					t.Errorf("%+v, %v", ni, err)
				}
				if tt.device == "" && ni.NID.String() != "127.0.0.1@tcp" {
					t.Errorf("NID %s", ni.NID)
				}
				if !strings.Contains(log.String(), "net type: tcp, interfaces") {
					t.Errorf("the log does not say how to name a net: %s", &log)
				}
				if took := time.Since(begin); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// An interface waits for its link if it is switched on and does not run. The loopback interface
// never waits.
func TestWaitsForLink(t *testing.T) {
	const ethernet = net.FlagBroadcast | net.FlagMulticast
	for _, tt := range []struct {
		name  string
		flags net.Flags
		want  bool
	}{
		{"off", ethernet, false},
		{"on without a link", ethernet | net.FlagUp, true},
		{"on with a link", ethernet | net.FlagUp | net.FlagRunning, false},
		{"off, loopback", net.FlagLoopback, false},
		{"on, loopback", net.FlagLoopback | net.FlagUp, false},
		{"on and running, loopback", net.FlagLoopback | net.FlagUp | net.FlagRunning, false},
	} {
		if got := waitsForLink(net.Interface{Name: "eth0", Flags: tt.flags}); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
