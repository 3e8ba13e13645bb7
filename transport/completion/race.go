//go:build race

package completion

// raceEnabled makes errors of a Core panic.
const raceEnabled = true
