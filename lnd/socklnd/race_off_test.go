//go:build !race

package socklnd_test

// raceEnabled tells whether the race detector is on, under which pools drop
// what they are given at random.
const raceEnabled = false
