// Package control is lnetd's control interface: HTTP with JSON bodies over a
// unix socket. It owns the requests and answers, the server that lnetd runs,
// the client that lnetdctl is, the socket file with its lock, and Fault, the
// error that an operator gets to read.
//
//	GET  /v1/version            who answers
//	GET  /v1/nets[?net=NET]     the node's nets and NIs with their counters
//	POST /v1/ping               ping nodes, one after the other
//
// Whoever may write to the socket file (mode 0660) may do everything.
// The server's goroutines are net/http's; Serve starts them and waits for them.
package control
