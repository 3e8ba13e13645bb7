//go:build race

package simulation_test

// With the race detector a scenario takes five times as long.
const seedsHere = seedsPlain / 2
