package api

import (
	"fmt"
	"math"

	"github.com/lnetd/lnetd/lnet"
)

// Range is the range of valid values of a number, including Min and Max. Commands, requests and documents
// use the same ranges, so that each accepts the values that the others produce.
type Range struct{ Min, Max int64 }

// Check returns an error that names the valid range if n is outside it.
func (r Range) Check(n int64) error {
	switch {
	case n >= r.Min && n <= r.Max:
		return nil
	case r.Min == math.MinInt64:
		return fmt.Errorf("%d is more than %d", n, r.Max)
	}
	return fmt.Errorf("%d is not within %s", n, r)
}

// String returns a text such as "0 to 100".
func (r Range) String() string { return fmt.Sprintf("%d to %d", r.Min, r.Max) }

// Ranges of the numbers of NIs, routes and rules.
var (
	CreditsRange     = Range{DriverDefault, creditsMax} // tunables of an NI
	PeerTimeoutRange = Range{DriverDefault, creditsMax} // seconds
	LNDTimeoutRange  = Range{0, 1 << 24}                // seconds
	HopsRange        = Range{1, lnet.HopsMax}
	PriorityRange    = Range{0, math.MaxInt32}
	RuleIDRange      = Range{0, math.MaxInt32} // of "selection"
)

const (
	// DriverDefault is the value of a tunable that means the driver's default.
	DriverDefault = -1
	creditsMax    = 1 << 24
)
