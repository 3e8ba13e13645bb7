// Package peering has what every driver does alike with peers: the table of open interfaces,
// the memory of peers that have gone, and the counts of refused callers and failed calls.
//
// It runs no goroutine and reads no clock.
package peering
