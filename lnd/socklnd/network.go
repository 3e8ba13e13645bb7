package socklnd

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Network is where streams come from: the host's sockets (HostNetwork), or a
// simulated fabric (package simlnd). Everything above it is the same code.
//
// Errors are those of the socket calls (syscall.Errno in the chain), since
// their classification depends on it (socklnd 15.2).
type Network interface {
	// Device finds the device called name (an alias such as "eth0:1" counts);
	// or, with an empty name, the device that owns the address of nid; or,
	// with neither, the first usable one that is not a loopback device.
	Device(name string, nid lnet.NID) (Device, error)

	// Watch calls changed after each event that may have altered a device
	// or its addresses, until ctx is done. It returns early only on an error.
	Watch(ctx context.Context, changed func()) error

	// Listen listens on the address, shared with no other listener.
	Listen(at netip.AddrPort, backlog int) (Listener, error)

	// Dial connects from a local address and port (port 0: any) to a remote
	// one. A local port in use for the same remote address is EADDRINUSE.
	Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error)
}

// Indexed is a Network that finds devices by their index too, which a device keeps when
// it is renamed.
type Indexed interface {
	Network

	// DeviceAt finds the device with an index. ErrDeviceMoved means that it was moved to
	// another network namespace; otherwise it was removed.
	DeviceAt(index int) (Device, error)
}

// Device is a network device at one moment.
type Device struct {
	Name string
	// Index is the device's index; 0 if it is not known.
	Index int
	// Addrs are its addresses with their subnets, in the host's order.
	Addrs []netip.Prefix
	// Off reports whether the device has been switched off; then it is not Up.
	Off bool
	// NoCarrier reports whether the device has lost its carrier; then it is not Up.
	NoCarrier bool
	// Up reports whether the device is operationally up and has a carrier.
	Up bool
	// Loopback marks the host's loopback device.
	Loopback bool
	// SpeedMbps is the link speed in Mbit/s, 0 if unknown.
	SpeedMbps int
}

// Has tells whether an address is the device's; a loopback device has all
// addresses of its IPv4 subnet.
func (d Device) Has(a netip.Addr) bool {
	for _, p := range d.Addrs {
		if p.Addr() == a || d.Loopback && a.Is4() && p.Contains(a) {
			return true
		}
	}
	return false
}

// addresses lists the device's addresses for an operator.
func (d Device) addresses() string {
	if len(d.Addrs) == 0 {
		return "none"
	}
	all := make([]string, len(d.Addrs))
	for k, p := range d.Addrs {
		all[k] = p.Addr().String()
	}
	return strings.Join(all, ", ")
}

// Listener accepts streams.
type Listener interface {
	// Accept blocks until a stream comes in or the listener is closed. An
	// error other than net.ErrClosed is temporary.
	Accept() (Stream, error)
	Addr() netip.AddrPort
	Close() error
}

// Stream is a connected byte stream. One goroutine may read and, at the same
// time, one may write; Close may come from any.
type Stream interface {
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Read blocks until at least one byte is there and fills bufs in order
	// with what there is. It returns io.EOF at the orderly end.
	Read(bufs [][]byte) (int, error)

	// TryWrite writes what fits of bufs, in order, and never blocks; 0 and no
	// error mean that nothing fits now.
	TryWrite(bufs [][]byte) (int, error)

	// AwaitWritable blocks until TryWrite can make progress.
	AwaitWritable() error

	// SetReadDeadline bounds Read, also one that blocks already;
	// SetWriteDeadline bounds TryWrite and AwaitWritable. The zero time lifts
	// the bound. A bound that passes gives os.ErrDeadlineExceeded.
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error

	// Ended looks, without reading and without blocking, whether the peer's
	// side is over, whatever is left to read: nil if it is not, io.EOF after
	// an orderly end, else what broke the stream. It may run beside all other
	// calls.
	Ended() error

	// Configure sets the options of an established connection.
	Configure(o StreamOptions) error

	// Unacked is the number of bytes written that the peer's stack has not
	// acknowledged.
	Unacked() int

	// Trying tells whether the stack sends again what the peer's has not
	// acknowledged, or probes it, in vain so far, and how long ago the peer's last
	// gave a sign of life.
	Trying() (trying bool, silent time.Duration)

	// Close ends the stream at once in both directions; bytes not yet sent
	// may be lost. Blocked calls return net.ErrClosed.
	Close() error
}

// Pollable is a Stream that others than its reader can read, too. Only such a connection is shared with
// callers who wait for answers, and can be watched.
type Pollable interface {
	// TryRead is Read that does not wait; 0 and no error mean that nothing is there. It heeds
	// no deadline. Whoever calls it is the one who reads.
	TryRead(bufs [][]byte) (int, error)

	// Bell makes the stream's bell, which rings when the stream is closed.
	Bell() (Bell, error)

	// Quiet(true) has bytes that come wake nobody, as far as that can be had: many do, and
	// the end. Quiet(false) ends that, and wakes whom what is there concerns.
	Quiet(on bool)
}

// Bell is what the reader of a stream sleeps at while others may read it: a muted one does not
// ring for bytes that come, and who is in Stream.Read hears them alone.
type Bell interface {
	// Attend calls f at once, and then whenever something may have come, until f returns true:
	// then it returns nil. Ring has it return os.ErrDeadlineExceeded.
	Attend(f func() bool) error

	// Mute(true) mutes the bell; Mute(false) ends that, and has it ring for what is there. Each
	// follows the other, from one goroutine at a time, and none follows Close. After an error the
	// bell may be mute.
	Mute(on bool) error

	// Ring ends Attend, the next one if there is none now. It may be called at any time.
	Ring()

	// Close frees the bell. Attend must have returned.
	Close()
}

// StreamOptions are the options set after the HELLO exchange (socklnd 16).
type StreamOptions struct {
	NoDelay           bool
	SendBuffer        int           // bytes, 0: the system's choice
	ReceiveBuffer     int           // bytes, 0: the system's choice
	KeepaliveIdle     time.Duration // any of the three 0: no TCP keepalive
	KeepaliveInterval time.Duration
	KeepaliveCount    int
	TOS               int // 0 to 255, negative: off
	// QuickAck asks the stack to acknowledge without delay.
	QuickAck bool
}
