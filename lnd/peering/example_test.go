package peering_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
)

// Pauses between attempts to connect to a peer become longer until a connection is established.
func ExampleBackoff() {
	b := peering.Backoff{Min: time.Second, Max: 4 * time.Second}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 4 {
		b.Fail(now, errors.New("connection refused"), 0) // without jitter
		fmt.Println("next attempt after", b.Next().Sub(now))
		now = b.Next()
	}
	b.Reset() // connected
	fmt.Println(b.Ready(now), b.Cause)
	// Output:
	// next attempt after 1s
	// next attempt after 2s
	// next attempt after 4s
	// next attempt after 4s
	// true <nil>
}

// A driver learns from the incarnation in a handshake whether the peer has restarted.
func ExampleIncarnations() {
	var s peering.Incarnations
	fmt.Println(s.Observe(100)) // first contact
	fmt.Println(s.Observe(100)) // another connection
	fmt.Println(s.Observe(200)) // the peer has restarted
	fmt.Println(s.Observe(100)) // a late handshake of the old incarnation
	// Output:
	// false
	// false
	// true
	// false
}
