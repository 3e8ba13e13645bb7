// Package message encodes and decodes the messages of a network test (transport 10.3): commands between a
// console and its nodes, and the headers of data messages. Malformed input from other hosts results in an
// error. The package has no goroutines and does not use the clock or do I/O.
package message
