package protocol

import "time"

// ResolveTimeout is how long the CM may take to resolve an address, and then as long again for a
// route (o2iblnd 3.2).
const ResolveTimeout = 5 * time.Second

// ConnectTimeout returns how long a request to connect may be unanswered (o2iblnd 3.2). timeout is
// that of the driver.
func ConnectTimeout(timeout time.Duration) time.Duration { return max(5*time.Second, timeout/4) }

// WaitTimeout returns how long a message may wait for a connection (o2iblnd 13.2).
func WaitTimeout(timeout time.Duration) time.Duration {
	return ConnectTimeout(timeout) + 2*ResolveTimeout
}
