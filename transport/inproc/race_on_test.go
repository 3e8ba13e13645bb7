//go:build race

package inproc

// raceEnabled: the race detector makes sync.Pool forget records at random, so
// that allocations cannot be counted.
const raceEnabled = true
