// Package controltest provides a daemon in memory, for tests of the control interface and of
// programs that use it. It stores changes as a node would, but has no network.
//
// The package starts no goroutine.
package controltest
