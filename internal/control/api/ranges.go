package api

import (
	"fmt"
	"math"

	"github.com/lnetd/lnetd/lnet"
)

// Range is what a number may be, whether a command, a request or a document has it: what
// one of them takes and a backup keeps, the others take too.
type Range struct{ Min, Max int64 }

// Check says which numbers are possible if n is none of them.
func (r Range) Check(n int64) error {
	switch {
	case n >= r.Min && n <= r.Max:
		return nil
	case r.Min == math.MinInt64:
		return fmt.Errorf("%d is more than %d", n, r.Max)
	}
	return fmt.Errorf("%d is not within %s", n, r)
}

// String is "0 to 100".
func (r Range) String() string { return fmt.Sprintf("%d to %d", r.Min, r.Max) }

// Ranges of what is said of NIs, routes and rules.
var (
	CreditsRange      = Range{DriverDefault, creditsMax} // tunables of an NI
	PeerTimeoutRange  = Range{DriverDefault, creditsMax} // seconds
	LNDTimeoutRange   = Range{0, 1 << 24}                // seconds
	ConnsPerPeerRange = Range{0, 127}
	TOSRange          = Range{-1, math.MaxUint8}
	HopsRange         = Range{1, lnet.HopsMax}
	PriorityRange     = Range{0, math.MaxInt32}
	RuleIDRange       = Range{0, math.MaxInt32} // of "selection"
)

const (
	// DriverDefault stands for the driver's default.
	DriverDefault = -1
	creditsMax    = 1 << 24
)

var (
	anything = Range{math.MinInt64, math.MaxInt64}
	count    = Range{0, math.MaxInt32}
	period   = Range{1, math.MaxInt32} // seconds
)

// GlobalRange is the range of a parameter that can be set. Numbers within it that mean the
// same as others are kept as those: discovery 7 is 1, and max_interfaces 3 is 4096.
func GlobalRange(name string) Range {
	for k := range globals {
		if globals[k].name == name {
			return globals[k].takes
		}
	}
	panic("api: no parameter " + name)
}
