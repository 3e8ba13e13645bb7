// Package pattern is what the bulk of a BRW test holds: a word over and over,
// written by the sender, and poison in the receiver's memory before
// (selftest 5).
//
// Page sizes and offsets differ between nodes. So a sender fills every word,
// and a receiver of a simple check looks at the first and the last word only.
// Package selftest calls it. It is pure: no goroutine, no clock, no I/O.
package pattern
