// Package message encodes and decodes the messages of lnetping (transport 10.1), byte for byte: texts,
// requests for bulk transfers, and the content of bulk. It returns an error for malformed input. It has
// no goroutines, does no I/O and does not use the clock.
package message
