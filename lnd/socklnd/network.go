package socklnd

import (
	"context"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// Network is where a driver opens and accepts streams: the host's sockets (HostNetwork) or a simulated
// network (package simlnd). The driver's code is the same for both.
//
// Errors must have the syscall.Errno of the socket call in their chain, because the driver derives the health
// class of messages from it (socklnd 15.2).
type Network interface {
	hostnet.Host

	// Speed returns the link speed of a device in Mbit/s, or 0 if the speed is unknown.
	Speed(device string) int

	// Listen listens at an address. It returns EADDRINUSE if another listener has the address.
	Listen(at netip.AddrPort, backlog int) (Listener, error)

	// Dial connects from a local address and port to a remote address and port. Local port 0 means any port.
	// Dial returns EADDRINUSE if the local port is in use for another connection to the same remote address
	// and port.
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

	// Read blocks until at least one byte is available, and then stores the available bytes in bufs, one
	// buffer after the other, until the buffers are full. It returns io.EOF if the peer has ended its side of
	// the stream in an orderly way.
	Read(bufs [][]byte) (int, error)

	// TryWrite writes as many bytes of bufs as the stream accepts without blocking, one buffer after the
	// other. It returns 0 and no error if the stream accepts none now.
	TryWrite(bufs [][]byte) (int, error)

	// AwaitWritable blocks until TryWrite can make progress.
	AwaitWritable() error

	// SetReadDeadline sets the time until which Read may block; it also applies to a call that is already
	// blocked. SetWriteDeadline does the same for TryWrite and AwaitWritable. After the deadline, these calls
	// return os.ErrDeadlineExceeded. The zero time removes the deadline.
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error

	// Ended returns nil if the peer's side of the stream has not ended, io.EOF after an orderly end, and
	// otherwise the error that broke the stream. It sees the end even if bytes are left to read. It neither
	// reads nor blocks, and may run concurrently with all other calls.
	Ended() error

	// Configure sets the options of the stream. It is called once, after the HELLOs have been exchanged.
	Configure(o StreamOptions) error

	// Unacked returns the number of written bytes that the peer's TCP has not acknowledged.
	Unacked() int

	// Trying reports whether the stream's TCP is retransmitting data or probing the peer and has had no
	// answer so far. silent is the time since the last sign of life from the peer's TCP.
	Trying() (trying bool, silent time.Duration)

	// Close ends the stream immediately in both directions. Unsent bytes may be lost. Blocked calls return
	// net.ErrClosed.
	Close() error
}

// Pollable is a Stream that other goroutines than its reader can also read. Only the connection of such a
// stream can be shared with callers that wait for answers, and can be polled.
type Pollable interface {
	// TryRead is Read without blocking. It returns 0 and no error if no bytes are available. It ignores
	// deadlines. While it runs, no other goroutine may read the stream.
	TryRead(bufs [][]byte) (int, error)

	// Waited reports whether the last call of Read had to wait for bytes. Only the goroutine that has called
	// Read may call it.
	Waited() bool

	// Bell creates the stream's bell, on which its reader sleeps. The bell rings when the stream is closed.
	Bell() (Bell, error)

	// Quiet(true) makes the stream wake sleeping goroutines only for a large number of bytes or for its end,
	// instead of for any byte. It is used while a goroutine polls the stream. Quiet(false) makes any byte
	// wake them again. If bytes are already available, it wakes them immediately.
	Quiet(on bool)
}

// Bell is what the reader of a stream sleeps on while other goroutines may read the stream. To ring the bell
// is to wake the reader. While the bell is muted, incoming bytes do not ring it; they wake only the goroutine
// in Stream.Read.
type Bell interface {
	// Attend calls f immediately, and again each time the bell rings for incoming bytes. It returns nil when
	// f has returned true, os.ErrDeadlineExceeded after Ring, and another error if the bell is closed.
	Attend(f func() bool) error

	// Mute(true) mutes the bell. Mute(false) unmutes it, and rings it if bytes are available. The two calls
	// alternate, are made by one goroutine at a time, and are not made after Close. After an error the bell
	// may be muted.
	Mute(on bool) error

	// Ring makes Attend return. If Attend is not running, the next call of Attend returns. Ring may be called
	// at any time.
	Ring()

	// Close releases the bell. Attend must have returned.
	Close()
}

// StreamOptions are the options set after the HELLO exchange (socklnd 16).
type StreamOptions struct {
	NoDelay           bool
	SendBuffer        int           // bytes; 0: the stream chooses
	ReceiveBuffer     int           // bytes; 0: the system default
	KeepaliveIdle     time.Duration // if any of the three is 0, TCP keepalive is off
	KeepaliveInterval time.Duration
	KeepaliveCount    int
	TOS               int // 0 to 255; negative: not set
	// QuickAck asks the stack to acknowledge without delay.
	QuickAck bool
}
