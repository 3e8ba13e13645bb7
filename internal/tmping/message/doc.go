// Package message is what lnetping says (transport 10.1), byte for byte: texts, requests to
// move bulk, and what bulk is filled with. Bytes in, values out; what a stranger sends is
// an error at worst. No goroutine, no clock, no I/O.
package message
