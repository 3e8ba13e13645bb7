//go:build !race

package transport

import "sync"

// orderedMutex is a mutex with a rank. A goroutine that holds one may lock only mutexes of higher ranks.
// The build with the race detector checks this (order_race.go); this one does not.
type orderedMutex[R rank] struct{ sync.Mutex }
