package socklnd

import (
	"context"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// Network is the source of streams: the host's sockets (HostNetwork) or a simulated fabric (package
// simlnd). The code above it is the same for both.
//
// Errors have the syscall.Errno of the socket call in their chain, since their classification depends
// on it (socklnd 15.2).
type Network interface {
	hostnet.Host

	// Speed returns the link speed of a device in Mbit/s. It returns 0 if it is unknown.
	Speed(device string) int

	// Listen listens on the address exclusively.
	Listen(at netip.AddrPort, backlog int) (Listener, error)

	// Dial connects from a local address and port (port 0: any) to a remote one. It returns EADDRINUSE
	// if the local port is in use for the same remote address.
	Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error)
}

// Listener accepts streams.
type Listener interface {
	// Accept blocks until a stream arrives or the listener is closed. Any error other than
	// net.ErrClosed is temporary.
	Accept() (Stream, error)
	Addr() netip.AddrPort
	Close() error
}

// Stream is a connected byte stream. One goroutine may read while another writes. Close may be called
// from any goroutine.
type Stream interface {
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Read blocks until at least one byte is available and fills bufs in order with the available
	// bytes. It returns io.EOF at the orderly end.
	Read(bufs [][]byte) (int, error)

	// TryWrite writes as much of bufs as fits, in order. It never blocks. It returns 0 and no error if
	// nothing fits now.
	TryWrite(bufs [][]byte) (int, error)

	// AwaitWritable blocks until TryWrite can make progress.
	AwaitWritable() error

	// SetReadDeadline limits Read, including a call that is already blocked. SetWriteDeadline limits
	// TryWrite and AwaitWritable. The zero time removes the limit. Calls fail with
	// os.ErrDeadlineExceeded when the deadline has passed.
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error

	// Ended checks whether the peer's side of the stream has ended, even if bytes are left to read. It
	// neither reads nor blocks. It returns nil if the stream has not ended, io.EOF after an orderly
	// end, and otherwise the error that broke the stream. It may run concurrently with all other calls.
	Ended() error

	// Configure sets the options of an established connection.
	Configure(o StreamOptions) error

	// Unacked returns the number of written bytes that the peer's stack has not acknowledged.
	Unacked() int

	// Trying reports whether the stack is retransmitting or probing without success so far. silent is
	// the time since the last sign of life from the peer's stack.
	Trying() (trying bool, silent time.Duration)

	// Close ends the stream immediately in both directions. Unsent bytes may be lost. Blocked calls
	// return net.ErrClosed.
	Close() error
}

// Pollable is a Stream that goroutines other than its reader can read too. Only such a stream can be
// shared with callers that wait for answers, and be polled.
type Pollable interface {
	// TryRead is Read without blocking. It returns 0 and no error if nothing is available. It ignores
	// deadlines. Its caller must be the only reader at that time.
	TryRead(bufs [][]byte) (int, error)

	// Bell creates the stream's bell. The bell rings when the stream is closed.
	Bell() (Bell, error)

	// Quiet(true) suppresses wakeups for incoming bytes as far as possible: a large number of bytes, or
	// the end of the stream, still wakes. Quiet(false) restores wakeups, and wakes those that the
	// available bytes concern.
	Quiet(on bool)
}

// Bell is where the reader of a stream sleeps while other goroutines may read the stream. While it is
// muted, incoming bytes wake only the goroutine in Stream.Read.
type Bell interface {
	// Attend calls f at once, and again whenever something may have arrived, until f returns true. Then
	// it returns nil. It returns os.ErrDeadlineExceeded after Ring.
	Attend(f func() bool) error

	// Mute(true) mutes the bell. Mute(false) unmutes it and rings if bytes are available. The calls
	// alternate, are made by one goroutine at a time, and not after Close. If Mute returns an error,
	// the bell may be muted.
	Mute(on bool) error

	// Ring makes Attend return, or the next Attend if it is not running. It may be called at any time.
	Ring()

	// Close releases the bell. Attend must have returned.
	Close()
}

// StreamOptions are the options set after the HELLO exchange (socklnd 16).
type StreamOptions struct {
	NoDelay           bool
	SendBuffer        int           // bytes; 0: the system default
	ReceiveBuffer     int           // bytes; 0: the system default
	KeepaliveIdle     time.Duration // if any of the three is 0, TCP keepalive is off
	KeepaliveInterval time.Duration
	KeepaliveCount    int
	TOS               int // 0 to 255; negative: not set
	// QuickAck asks the stack to acknowledge without delay.
	QuickAck bool
}
