// Package hosting runs lnetd with clients in separate processes and tests what can happen to processes:
// they are killed, stopped and forked, they write arbitrary bytes, there are many of them, and lnetd ends
// before they do. Each test is a campaign. It has a short form for ordinary test runs and a long one,
// `make hosting`.
//
// A client is a second process of the test binary, in a role (program_test.go). It uses transport/remote
// like any program or, to do harm, the protocol and the rings directly.
package hosting
