// Package message is what a network test says (transport 10.3): commands between a console
// and its nodes, and what the nodes' data messages begin with. Bytes in, values out; what
// a stranger sends is an error at worst. No goroutine, no clock, no I/O.
package message
