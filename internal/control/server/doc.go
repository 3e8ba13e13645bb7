// Package server answers on lnetd's control socket: HTTP with JSON bodies, as
// package api has them, of what the daemon, a Backend, shows and changes. It owns the
// socket file with its lock, too; internal/daemon calls it.
//
// Each noun (/v1/nets, peers, routes, ...) has a file; Server.Handler lists them all.
// ping, discover and the commands of lst wait for other nodes; explain only asks. A
// change is made whole or not at all, and one after the other; the console puts those
// of lst in order itself. Lists are written in pages while they are made (list.go),
// and who does not read them is in nobody else's way (connections.go).
//
// Whoever may write to the socket file (mode 0660) may do everything, but profiles
// are for root and the daemon's user (profiles.go). Goroutines are net/http's, which
// httpd.Serve starts and waits for.
package server
