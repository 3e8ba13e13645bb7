//go:build race

package testenv

// Race tells that the race detector is on: everything takes many times as long, and a
// sync.Pool forgets at random what it is given, so that allocations cannot be counted.
const Race = true
