package api

import (
	"time"
)

// Timeouts of both sides of a connection.
const (
	// HeadPatience is the timeout for connecting and for the head of a request.
	HeadPatience = 5 * time.Second
	// ReplyPatience is the timeout for each page of a reply. It also limits how long lnetd prepares
	// a reply, unless the request sets a different limit.
	ReplyPatience = 30 * time.Second
	// DocumentPatience replaces ReplyPatience for requests that process a document of any size.
	DocumentPatience = 10 * time.Minute
)

// TargetsPatience returns the maximum duration of a request that waits up to timeout for each of n
// targets.
func TargetsPatience(n int, timeout time.Duration) time.Duration {
	return ReplyPatience + time.Duration(n)*timeout
}
