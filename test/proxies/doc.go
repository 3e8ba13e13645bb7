// Package proxies runs lnetd's side of drivers in other processes (lnd/uplnd) with proxies that are killed and
// hostile, and routes messages between proxied nets and others. Each test has a short form for ordinary test runs
// and a long one, `make proxies`.
//
// A proxy is a second process of the test binary, in a role (program_test.go). An honest one has the driver
// socklnd. A hostile one uses the protocol and the shared memory directly.
package proxies
