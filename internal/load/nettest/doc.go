// Package nettest implements Motr's distributed network test (transport 10.3). A Node is a server or a
// client in a test of messages or of bulk. A console (Run) controls the nodes and adds up their
// counters. cmd/lnetperf calls it.
//
// A node has the goroutine of its Loop for commands. During a test it also has a Loop for data and the
// goroutine of a ticker. Callbacks for data run with the lock of the test held. A console has the
// goroutines of its Loops and runs in the caller's goroutine. Received messages are never trusted:
// package message decodes them, and message.Test.Check limits what a console may request.
package nettest
