//go:build !race

// The race detector finds data races in TestConformance, which runs the same goroutines.

package o2iblnd_test

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// TestConformanceInRealTime runs the suite without bubbles, to detect leaked goroutines and
// allocations per message.
func TestConformanceInRealTime(t *testing.T) {
	quick := func(c *o2iblnd.Config) {
		c.Timeout = 10 * time.Second
		c.Keepalive = 200 * time.Millisecond // so that an idle node notices that a connection is broken
	}
	h := nature{Config: fabric.Config{AckTimeout: 300 * time.Millisecond}, edit: quick, chain: 5000}.harness(1)
	h.Bubble, h.Settle, h.Patience = nil, nil, 2*time.Minute
	h.Allocations = true
	slow := map[string]bool{"LinkBack": true, "OwnLinkBack": true, "IsolatedPeer": true, "ArrivalsBeforeOpenReturned": true}
	h.Only = func(theme, name string) bool {
		return !slow[name] && theme != "Probe" && theme != "Stall" && theme != "Restart"
	}
	lndtest.Run(t, h)
}
