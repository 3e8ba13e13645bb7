// Package controltest provides a backend of the control API in memory, for tests of the control API and
// of its clients. It stores changes as a node would, but it has no network.
//
// The package starts no goroutine.
package controltest
