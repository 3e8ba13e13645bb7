// Package tmping implements Motr's lnetping (transport 10.1): a Server that answers pings and reads or
// writes the bulk buffers that clients announce, clients that send requests and check the results, and
// the reports of both. It uses the text protocol of that tool, byte for byte.
//
// A Server has the goroutine of its Loop. Session.Clients runs each client in a goroutine until all have
// finished. cmd/lnetperf calls this package.
package tmping
