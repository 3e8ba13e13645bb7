package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// The start waits for an interface that gets its link shortly afterwards, as at boot. It gives up
// on one that never gets it.
func TestWaitForLink(t *testing.T) {
	eth0 := device("eth0", "192.0.2.5/24")
	waits, off := eth0, eth0
	waits.Up, waits.NoCarrier = false, true
	off.Up, off.Off = false, true
	tests := []struct {
		name   string
		first  hostnet.Device
		then   []hostnet.Device
		device string // the interface that is used; empty means loopback
		took   time.Duration
	}{
		{"comes", waits, []hostnet.Device{eth0}, "eth0", time.Second},
		{"never comes", waits, nil, "", linkTimeout},
		{"nothing to wait for", off, nil, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := host(lo, tt.first)
				if tt.then != nil {
					time.AfterFunc(time.Second, func() { n.Set(tt.then...) })
				}
				found := tcp{network: n}
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
