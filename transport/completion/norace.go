//go:build !race

package completion

// raceEnabled makes Queue.Push panic if the Core exceeds the credits, because that is a fault of the Core.
const raceEnabled = false
