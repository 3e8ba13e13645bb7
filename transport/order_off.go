//go:build !race

package transport

import "sync"

// orderedMutex is a lock with a rank. Whoever holds one takes only those of higher ranks,
// which the race detector's build checks (order_race.go), and this one pays nothing for.
type orderedMutex[R rank] struct{ sync.Mutex }
