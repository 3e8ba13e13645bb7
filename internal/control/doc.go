// Package control is lnetd's control interface: HTTP with JSON bodies over a
// unix socket. It owns the requests and answers, the server that lnetd runs,
// the client that lnetdctl is, the socket file with its lock, and Fault, the
// error that an operator gets to read.
//
// Each noun (/v1/nets, peers, routes, ...) has a file with its GET, POST and
// DELETE and the client's calls; Server.Handler lists them all. ping, discover
// and the commands of lst wait for other nodes; explain only asks. A change is
// made whole or not at all, and one after the other; the console puts those of
// lst in order itself. Lists are written in pages while they are made (list.go),
// and who does not read them is in nobody else's way (connections.go).
//
// Whoever may write to the socket file (mode 0660) may do everything. Goroutines
// are net/http's, which Serve starts and waits for, and the one by which
// Client.EachPeer reads ahead.
package control
