package lndtest

import (
	"context"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Harness describes a driver to the suite: how to make networks for it, and what to check.
type Harness struct {
	// New creates a world of n nodes without open interfaces. Required.
	New func(t *testing.T, n int) *World
	// Bubble runs a case with simulated time (synctest.Test). If it is nil, the case runs in real time, and the
	// suite checks that it leaves no goroutine running.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Settle blocks until all goroutines of the case are idle (synctest.Wait). It is nil if the harness cannot
	// find that out.
	Settle func()

	// Only selects the cases to run, by theme and name. If it is nil, all run.
	Only func(theme, name string) bool
	// Patience is how long the suite waits for an expected event before a case fails. 0 means one minute. It
	// must be longer than the driver's timeouts.
	Patience time.Duration
	// Chain is the number of messages in cases where each message makes the next one be sent. 0 means 100,000.
	Chain int
	// MaxUnplaced is the largest number of messages from one peer that the driver may announce (Upper.Arrived)
	// before the first of them is placed. 0 disables this check.
	MaxUnplaced int
	// Ordered means that all small messages to one peer use the same connection from the first one on. The
	// suite then checks that they keep their order.
	Ordered bool
	// Descriptors enables the check that no file descriptors leak.
	Descriptors bool
	// Allocations enables the check that, after a warm-up, sending and receiving a message together allocate
	// nothing.
	Allocations bool
}

// World is one network with some nodes, for one case. An optional function is nil if the driver's network does
// not support it. Cases that need it are then skipped.
type World struct {
	// NID returns the NID of node k's interface, even if that is not open. Required.
	NID func(k int) lnet.NID
	// Open opens node k's interface, with u as its upper. If it was open before, this is a restart of the node
	// with a new incarnation. Required.
	Open func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error)
	// Close releases what New created, after all interfaces were closed. Required.
	Close func()

	// Renew replaces node k's driver by a new one, as if the node's process had been restarted. It is called
	// only while the node's interface is closed.
	Renew func(k int)
	// Kill breaks all connections between two nodes, so that both notice it.
	Kill func(a, b int)
	// Isolate discards everything that is sent between two nodes until heal is called.
	Isolate func(a, b int) (heal func())
	// Hold delays connection requests between two nodes until release is called.
	Hold func(a, b int) (release func())
	// CutAfter breaks the next connection that a opens to b, after n bytes from a to b.
	CutAfter func(a, b int, n int)
	// SetLink changes the link state of node k's device.
	SetLink func(k int, up bool)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = time.Minute
	}
	if h.Chain == 0 {
		h.Chain = 100_000
	}
	themes := []struct {
		name  string
		cases []scenario
	}{
		{"Headers", headerCases},
		{"Payload", payloadCases},
		{"Placement", placementCases},
		{"Order", orderCases},
		{"Completion", completionCases},
		{"Withdrawal", withdrawalCases},
		{"Peers", peerCases},
		{"Restart", restartCases},
		{"Probe", probeCases},
		{"Stall", stallCases},
		{"Reentrancy", reentrancyCases},
		{"Load", loadCases},
		{"Registration", registrationCases},
		{"Interface", interfaceCases},
	}
	for _, theme := range themes {
		t.Run(theme.name, func(t *testing.T) {
			for _, c := range theme.cases {
				if h.Only == nil || h.Only(theme.name, c.name) {
					t.Run(c.name, func(t *testing.T) { c.play(t, &h) })
				}
			}
		})
	}
	if h.Descriptors {
		t.Run("Descriptors", func(t *testing.T) { descriptors(t, &h) })
		t.Run("DescriptorsOfTheWithdrawn", func(t *testing.T) { descriptorsOfTheWithdrawn(t, &h) })
	}
	if h.Allocations {
		t.Run("Allocations", func(t *testing.T) { allocations(t, &h) })
	}
}
