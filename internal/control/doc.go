// Package control is lnetd's control interface: HTTP with JSON bodies over a
// unix socket. It owns the requests and answers, the server that lnetd runs,
// the client that lnetdctl is, the socket file with its lock, and Fault, the
// error that an operator gets to read.
//
// Each noun (/v1/nets, peers, routes, routing, globals, udsp, selection, faults,
// stats) has a file with its GET, POST and DELETE and the client's calls;
// Server.Handler lists them all. ping, discover and the commands of lst wait for
// other nodes; explain only asks. A change is made whole or not at all, and one
// after the other; the console puts those of lst in order itself.
//
// Whoever may write to the socket file (mode 0660) may do everything.
// The server's goroutines are net/http's; Serve starts them and waits for them.
package control
