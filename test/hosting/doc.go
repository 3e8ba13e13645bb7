// Package hosting runs an lnetd with clients in processes of their own, and does to them what
// befalls processes: they are killed, stopped and forked, write what they like, come in
// numbers, and lnetd ends under them. Each test is a campaign, with a short form for everybody
// and a long one, `make hosting`.
//
// Clients are the test's program once more, in a role (program_test.go): they use
// transport/remote as anybody would, or, to do harm, its protocol and rings by hand.
package hosting
