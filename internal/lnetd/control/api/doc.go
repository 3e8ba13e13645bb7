// Package api defines the messages of lnetd's control interface: the bodies of requests and
// replies, and Fault, the error type that operators see, with its codes. It also locates the
// control socket, identifies the process at the other end, and defines the timeouts of both sides.
// Package server implements the interface, and package client calls it. docs/control.md describes
// every request.
//
// Each resource (nets, peers, routes, ...) has a file of the same name in all three packages. The
// commands of lst return values of package selftest/report.
//
// The package imports only lnet and starts no goroutine.
package api
