// Package message encodes and decodes the messages of lnetping (transport 10.1), byte for byte: texts,
// requests to move bulk, and the content of bulk. Malformed input from other hosts results in an error.
// The package has no goroutines and does not use the clock or do I/O.
package message
