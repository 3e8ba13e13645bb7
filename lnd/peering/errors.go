package peering

import (
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
)

// Causes of closed connections and failed messages that all drivers share.
var (
	ErrClosing    = fmt.Errorf("%w: %w", lnd.ErrClosed, syscall.ENETDOWN)
	ErrDisconnect = fmt.Errorf("%w: closed by this node on request", lnd.ErrDisconnected)
	ErrStale      = fmt.Errorf("%w: %w", lnd.ErrDisconnected, lnd.ErrRestarted)
	ErrNoWay      = fmt.Errorf("%w: %w", lnd.ErrUnreachable, syscall.EHOSTUNREACH)
	ErrWaited     = fmt.Errorf("%w: waiting for a connection: %w", lnd.ErrTimeout, syscall.ETIMEDOUT)
)
