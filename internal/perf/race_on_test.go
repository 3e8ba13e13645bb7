//go:build race

package perf

// raceEnabled tells that the race detector is on, under which pools drop what
// they are given at random.
const raceEnabled = true
