// Package httpd runs an HTTP server with limits on its clients and an orderly shutdown. The control
// socket and the metrics port use it.
//
// Its goroutines are those of net/http. Serve waits for the goroutine that accepts connections and for requests
// in progress.
package httpd
