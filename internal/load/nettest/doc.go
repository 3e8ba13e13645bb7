// Package nettest is Motr's distributed network test (transport 10.3): Nodes, each of which is a server
// or a client of messages or of bulk, and a console that controls the nodes and sums up what they have
// counted. cmd/lnetperf calls it.
//
// A node has the goroutine of its Loop for commands. During a test it also has another Loop for data, and
// a ticker. Callbacks of data run under the lock of the test. A console has the goroutines of its Loops,
// and the caller's. Received messages are never trusted: package message decodes them, and
// message.Test.Check limits what a console may request.
package nettest
