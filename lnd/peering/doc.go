// Package peering holds what all drivers need to manage peers: the table of open interfaces, the record
// of departed peers, and counters of refused callers and failed calls.
//
// It runs no goroutine and reads no clock.
package peering
