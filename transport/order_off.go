//go:build !race

package transport

import "sync"

// orderedMutex is a mutex with a rank. A goroutine that holds an orderedMutex may lock only those of higher
// ranks. Only builds with the race detector check this (order_race.go).
type orderedMutex[R rank] struct{ sync.Mutex }
