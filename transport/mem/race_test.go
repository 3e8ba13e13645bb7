//go:build race

package mem_test

// raceEnabled: the order of locks is noted, which allocates.
const raceEnabled = true
