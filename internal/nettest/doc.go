// Package nettest is Motr's distributed network test (transport 10.3): Nodes, each of which
// is a server or a client of messages or of bulk, and a console that tells them what to do
// and adds up what they have counted. cmd/lnetperf calls it.
//
// A node has the goroutine of its Loop for commands, and with a test another Loop for data,
// and a ticker; callbacks of data run under the lock of the test. A console has the
// goroutines of its Loops, and the caller's. What others send is never trusted: package
// message reads it, and message.Test.Check bounds what a console may ask for.
package nettest
