// Package api is what lnetd's control interface says: the bodies of requests and
// replies, Fault with its codes, which is the error that an operator gets to read,
// where the socket is, who sits at its other end, and how long the sides wait for
// each other. Package server answers, package client asks; docs/control.md shows
// all of it.
//
// Each noun (nets, peers, routes, ...) has a file of the same name in all three.
// What a command of lst brings back is what a console tells, in the values of
// package selftest/report.
//
// It imports lnet alone, and has no goroutine.
package api
