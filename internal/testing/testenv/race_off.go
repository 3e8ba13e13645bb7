//go:build !race

package testenv

// Race reports whether the race detector is on. With it, everything takes many times as long, and a
// sync.Pool drops objects at random, so allocations cannot be counted.
const Race = false
