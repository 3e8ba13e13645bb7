package protocol

import "time"

// ResolveTimeout is how long the CM may take to resolve an address. It may then take as long again to resolve a
// route (o2iblnd 3.2).
const ResolveTimeout = 5 * time.Second

// ConnectTimeout returns how long a connection request may be unanswered (o2iblnd 3.2). timeout is the LND
// timeout.
func ConnectTimeout(timeout time.Duration) time.Duration { return max(5*time.Second, timeout/4) }

// WaitTimeout returns how long a message may wait for a connection (o2iblnd 13.2). timeout is the LND timeout.
func WaitTimeout(timeout time.Duration) time.Duration {
	return ConnectTimeout(timeout) + 2*ResolveTimeout
}
