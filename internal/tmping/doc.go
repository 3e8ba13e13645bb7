// Package tmping is Motr's lnetping (transport 10.1): a Server that answers pings and moves
// the bulk that clients announce, Clients that ask it for that and check what comes, and
// the report of both. It speaks the text protocol of that tool, byte for byte.
//
// A Server has the goroutine of its Loop, and a Client that of its caller. cmd/lnetperf
// calls it.
package tmping
