// Package api defines the messages of lnetd's control interface: the bodies of requests and
// replies, and Fault, the error type that operators see, with its codes. It also locates the
// control socket, identifies the process at the other end, and defines the timeouts of both sides.
// Package endpoint lists the requests, package server implements them, and package client calls
// them. docs/control.md describes every request.
//
// Each resource (nets, peers, routes, ...) has a file of the same name here and in package server.
// The commands of lst return values of package selftest/report.
//
// The package imports only lnet and starts no goroutine.
package api
