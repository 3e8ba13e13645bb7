//go:build race

package hosting

// raceEnabled has lnetd built with the race detector, as the test is.
const raceEnabled = true
