package lndtest

import (
	"context"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Harness describes a driver to the suite.
type Harness struct {
	// New creates a world of n nodes without open interfaces. Required.
	New func(t *testing.T, n int) *World
	// Bubble runs a case with simulated time (synctest.Test). If it is nil, the case runs in real time
	// and must leave no goroutine behind.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Settle blocks until all goroutines are idle (synctest.Wait). It is nil if that cannot be detected.
	Settle func()

	// Only selects the cases to run, by theme and name. If it is nil, all run.
	Only func(theme, name string) bool
	// Patience is the time limit for expected events. 0 means one minute. It must be longer than the
	// driver's timeouts.
	Patience time.Duration
	// Chain is the number of messages in chains that trigger each other. 0 means 100,000.
	Chain int
	// MaxUnplaced is the largest number of messages that the driver announces for one peer before the
	// first of them is placed. 0 disables the check.
	MaxUnplaced int
	// Ordered is set if all small messages to one peer use the same connection from the first on, and so
	// must keep their order.
	Ordered bool
	// Descriptors enables the check that no file descriptors leak.
	Descriptors bool
	// Allocations enables the check that a message in steady state allocates nothing, on both sides
	// together.
	Allocations bool
}

// World is one network with some nodes, for one case. Optional functions are nil if the driver's network
// does not support them. Cases that need them are then skipped.
type World struct {
	// NID returns the NID of node k's interface, even if that is not open. Required.
	NID func(k int) lnet.NID
	// Open opens node k's interface. If it was open before, this is a restart of the node with a new
	// incarnation. Required.
	Open func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error)
	// Close releases what New created, after all interfaces were closed. Required.
	Close func()

	// Renew replaces node k's driver by a new one, as a new process would. The node's interface is
	// closed.
	Renew func(k int)
	// Kill breaks all connections between two nodes. Both notice it.
	Kill func(a, b int)
	// Isolate discards everything between two nodes until heal is called.
	Isolate func(a, b int) (heal func())
	// Hold delays connection requests between two nodes until release is called.
	Hold func(a, b int) (release func())
	// CutAfter breaks the next connection from a to b after n bytes towards b.
	CutAfter func(a, b int, n int)
	// SetLink changes the link state of a node's device.
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
