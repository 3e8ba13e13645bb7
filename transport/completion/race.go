//go:build race

package completion

// raceEnabled has mistakes of a Core panic.
const raceEnabled = true
