// Package httpd is the life of an HTTP server: bounds on its clients, and an orderly
// end. The control socket and the metrics port are served by it.
//
// Goroutines are net/http's, which Serve starts and waits for.
package httpd
