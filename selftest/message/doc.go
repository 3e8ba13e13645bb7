// Package message is the codec of LNet selftest's messages: every one is 160
// bytes, request or reply, in its sender's byte order (selftest 1.1, 2).
//
// There is a struct per request and reply. Append writes one in the order that
// its header names, Decode reads one of either order; neither allocates, but
// for errors, and a failed Decode leaves the struct as it was. The client side
// of RPCs (package rpc), the node's services and consoles call it. It is pure:
// no goroutine, no clock, no I/O.
package message
