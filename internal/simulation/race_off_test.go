//go:build !race

package simulation_test

const seedsHere = seedsPlain
