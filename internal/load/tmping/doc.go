// Package tmping is Motr's lnetping (transport 10.1): a Server that answers pings and moves the bulk that
// clients announce, Clients that send requests and check the results, and the reports of both. It uses
// the text protocol of that tool, byte for byte.
//
// A Server has the goroutine of its Loop. A Client runs in the caller's goroutine. cmd/lnetperf calls
// this package.
package tmping
