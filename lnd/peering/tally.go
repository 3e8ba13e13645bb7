package peering

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
)

// RefusalTally counts refused callers by reason. The zero value is ready to use. It is safe for
// concurrent use.
type RefusalTally [lnd.Refusals]atomic.Uint64

// Add counts one caller.
func (t *RefusalTally) Add(r lnd.Refusal) { t[r].Add(1) }

// Counts returns the current counts.
func (t *RefusalTally) Counts() (c lnd.RefusalCounts) {
	for r := range t {
		c[r] = t[r].Load()
	}
	return c
}

// CallFailureTally counts failed calls by reason. The zero value is ready to use. It is safe for
// concurrent use.
type CallFailureTally [lnd.CallFailures]atomic.Uint64

// Add counts one failure.
func (t *CallFailureTally) Add(f lnd.CallFailure) { t[f].Add(1) }

// Counts returns the current counts.
func (t *CallFailureTally) Counts() (c lnd.CallFailureCounts) {
	for f := range t {
		c[f] = t[f].Load()
	}
	return c
}
