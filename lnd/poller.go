package lnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Poller is an Interface that callers can watch themselves for the answers that they wait
// for, before they sleep.
type Poller interface {
	// Polls tells whether Poll is of use at present.
	Polls() bool

	// Poll watches for what peer sends until over is set, or for as long as the interface
	// is set to, milliseconds at most; it may return at once. It makes upcalls and completions,
	// whomever they are for, in the caller's goroutine, and waits for nothing
	// else. It may be called from any goroutine but not with a lock held that an upcall
	// takes.
	Poll(peer lnet.NID, over *atomic.Bool)
}
