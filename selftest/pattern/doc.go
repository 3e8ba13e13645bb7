// Package pattern fills and checks the bulk of BRW tests: the sender fills it with one repeated word, and
// the receiver first fills its memory with poison (selftest 5).
//
// Page sizes and offsets differ between nodes. So a sender fills every word, and a receiver with a simple
// check compares only the first and the last word.
//
// Package selftest uses this package. It has no goroutines and does not use the clock or do I/O.
package pattern
