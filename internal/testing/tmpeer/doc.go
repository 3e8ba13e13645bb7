// Package tmpeer is for tests of clients of lnetd that are written in C. It provides an lnetd in the test's
// process, a transfer machine that talks with the client, and the comparison of a client's session with
// that on the protocol's page.
//
// Serve starts a goroutine, which ends with the test.
package tmpeer
