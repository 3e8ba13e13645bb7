// Package httpd runs an HTTP server with limits on its clients and an orderly shutdown. The control
// socket and the metrics port use it.
//
// Its goroutines are those of net/http. Serve starts them and waits for them.
package httpd
