// Package protocol is ksocklnd's protocol without I/O: codecs and state machines. It has bytes and
// times as arguments and returns values and actions. It never uses a socket, a clock or a log.
//
// The codecs (Hello, Frame, Checksum, Cookies, AckQueue) encode and decode values. The state
// machines use them and decide what a connection does next. Package socklnd runs both over TCP,
// package simlnd over a simulated fabric.
//
// The package starts no goroutines. Nothing is safe for concurrent use unless its comment says so:
// the owner of a connection also owns its codecs.
package protocol
