// Package protocol is ksocklnd's protocol without I/O: codecs and state machines. Its functions receive bytes
// and times, and return values and actions. They use no socket, no clock and no log.
//
// The codecs (Hello, Frame, Checksum, Cookies, AckQueue) encode and decode values. The state machines use them
// and decide what a connection does next. Package socklnd runs both over TCP, and package simlnd over a
// simulated network.
//
// The package starts no goroutines. Its types are not safe for concurrent use unless their comments say so. The
// owner of a connection also owns its codecs.
package protocol
