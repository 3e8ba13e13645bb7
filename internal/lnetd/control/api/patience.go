package api

import (
	"time"
)

// Timeouts of a control connection. lnetd and its clients use the same values.
const (
	// HeadPatience is the timeout for connecting, and for sending the head of a request.
	HeadPatience = 5 * time.Second
	// ReplyPatience is the timeout for sending each page of a reply. It is also the maximum time until
	// lnetd begins to send the reply, except for requests that have another limit.
	ReplyPatience = 30 * time.Second
	// DocumentPatience is the limit instead of ReplyPatience for requests with a document, which may
	// be large.
	DocumentPatience = 10 * time.Minute
)

// TargetsPatience returns the maximum duration of a request that waits for each of n targets for at most timeout, for
// atOnce targets at a time.
func TargetsPatience(n, atOnce int, timeout time.Duration) time.Duration {
	rounds := (n + atOnce - 1) / atOnce
	return ReplyPatience + time.Duration(rounds)*timeout
}
