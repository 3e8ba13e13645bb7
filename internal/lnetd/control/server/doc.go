// Package server implements lnetd's control interface: HTTP over a Unix socket, with the JSON bodies of
// package api. It performs requests by calling a Backend, which the daemon implements. It also creates the
// socket file and its lock. internal/lnetd/daemon calls it.
//
// Each resource (nets, peers, routes, ...) has a file. Server.Handler registers a handler for each
// endpoint of package endpoint. The requests ping and discover and the commands of lst wait for
// other nodes; explain does not. Changes are applied as a whole or not at all, one at a time; the
// console of selftest serializes the commands of lst itself. Lists are generated page by page while
// they are written (list.go), and a client that does not read its replies does not affect other
// clients (connections.go).
//
// A user that can write to the socket file (mode 0660) may send any request, except that profiles
// are limited to root and the daemon's user (profiles.go). All goroutines are those of net/http.
// httpd.Serve starts them and waits for them.
package server
