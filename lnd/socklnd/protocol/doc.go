// Package protocol is the sans-I/O part of ksocklnd's protocol: codecs and
// state machines. It turns bytes and times into values and actions and never
// touches a socket, a clock or a log.
//
// The codecs (Hello, Frame, Checksum, Cookies, AckQueue) are pure values; the
// machines built on them decide what a connection does next. Package socklnd
// drives both over TCP, package simlnd over a simulated fabric.
//
// Nothing here starts a goroutine, and nothing is safe for concurrent use
// unless it says so: whoever owns the connection owns its codecs.
package protocol
