//go:build race

package portals_test

// raceEnabled: the race detector makes sync.Pool forget records at random, so
// that allocations cannot be counted.
const raceEnabled = true
