package protocol

import "time"

// ResolveTimeout is how long the CM may take for an address, and then for a route
// (o2iblnd 3.2).
const ResolveTimeout = 5 * time.Second

// ConnectTimeout is how long a request to connect may be without an answer
// (o2iblnd 3.2). timeout is the driver's.
func ConnectTimeout(timeout time.Duration) time.Duration { return max(5*time.Second, timeout/4) }

// WaitTimeout is how long a message may wait for a connection (o2iblnd 13.2).
func WaitTimeout(timeout time.Duration) time.Duration {
	return ConnectTimeout(timeout) + 2*ResolveTimeout
}
