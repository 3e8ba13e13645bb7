// Package message encodes and decodes the messages of a network test (transport 10.3): commands between
// a console and its nodes, and the headers of data messages. It returns an error for malformed input. It
// has no goroutines, does no I/O and does not use the clock.
package message
