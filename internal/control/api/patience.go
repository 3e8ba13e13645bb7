package api

import (
	"time"
)

// How long the sides wait for each other.
const (
	// HeadPatience bounds the making of a connection and the head of a request.
	HeadPatience = 5 * time.Second
	// ReplyPatience bounds the wait for an answer, for each page of it, and, unless
	// a request says otherwise, what lnetd takes to make it.
	ReplyPatience = 30 * time.Second
	// DocumentPatience is ReplyPatience where a document of any size is worked on.
	DocumentPatience = 10 * time.Minute
)

// TargetsPatience is how long a reply takes at most that waits so long for each of n
// targets.
func TargetsPatience(n int, timeout time.Duration) time.Duration {
	return ReplyPatience + time.Duration(n)*timeout
}
