// Package pattern fills and checks the bulk of BRW tests (selftest 5). The sender fills the bulk with one
// repeated word. The receiver fills its memory with poison before the data arrives, so that missing data is
// detected.
//
// Page sizes and offsets differ between nodes. So a sender fills every word, and a receiver with a simple
// check compares only the first and the last word.
//
// Package selftest uses this package. It starts no goroutines, does no I/O and does not use the clock.
package pattern
