package lndtest

import (
	"context"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Harness is what a driver's test supplies.
type Harness struct {
	// New makes a world of n nodes, none of which has an interface open.
	// Required.
	New func(t *testing.T, n int) *World
	// Bubble runs a case where time is simulated (synctest.Test); nil runs it
	// in real time, and then the case must leave no goroutine behind.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Settle blocks until nothing moves (synctest.Wait); nil if nobody can
	// tell.
	Settle func()

	// Only, if not nil, chooses the cases to run, by theme and name.
	Only func(theme, name string) bool
	// Patience bounds the wait for what must happen; 0 means one minute. It
	// must exceed the driver's timeouts.
	Patience time.Duration
	// Chain is the length of the chains of messages that send each other; 0
	// means 100,000.
	Chain int
	// MaxUnplaced is the largest number of messages that the driver announces
	// of one peer while it has been told the place of none; 0 does not check.
	MaxUnplaced int
	// Ordered says that small messages to one peer travel on one connection
	// from the first, and so must keep their order.
	Ordered bool
	// Descriptors says that the process's open files shall be counted.
	Descriptors bool
	// Allocations says that a message in steady state must allocate nothing,
	// on both sides together, and that this can be measured.
	Allocations bool
}

// World is one network with some nodes, used by one case. Optional functions
// are nil where the driver's network cannot do it; the cases that need them are
// then left out.
type World struct {
	// NID is the NID of node k's interface, open or not. Required.
	NID func(k int) lnet.NID
	// Open brings node k's interface up. After the interface was closed it is
	// a restart of the node, with a new incarnation. Required.
	Open func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error)
	// Close takes down what New made, after all interfaces were closed.
	// Required.
	Close func()

	// Renew replaces node k's driver by another one, as a new process does. The
	// node's interface is not open.
	Renew func(k int)
	// Kill breaks all connections between two nodes, noticeably for both.
	Kill func(a, b int)
	// Isolate makes everything between two nodes vanish until heal is called.
	Isolate func(a, b int) (heal func())
	// Hold keeps attempts to connect waiting until release is called.
	Hold func(a, b int) (release func())
	// CutAfter breaks the next connection that a makes with b after n bytes
	// towards b.
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
