//go:build race

package remote_test

// raceEnabled: the race detector makes sync.Pool forget records at random, so
// that allocations cannot be counted.
const raceEnabled = true
