package socklnd

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// Config is a driver's configuration. It holds ksocklnd's module parameters under their usual names
// (socklnd 19), those of the acceptor (lnet-wire 5.4), and additional settings for a program in user
// space. Start from DefaultConfig or UnprivilegedConfig and change what differs.
type Config struct {
	// Tunables are the defaults for the flow-control tunables of each interface (credits, peer_credits,
	// peer_buffer_credits, peer_timeout).
	Tunables lnd.Tunables

	// Accept selects the source ports that may connect: AcceptSecure, AcceptAll or AcceptNone.
	Accept Accept
	// AcceptPort is the port that the acceptor listens on, by default 988. Only peers configured for
	// another port can reach a node that listens there.
	AcceptPort int
	// AcceptPortBulk is the port for connections other than CONTROL. If it equals AcceptPort, there is
	// one listener.
	AcceptPortBulk int
	// ConnectPort and ConnectPortBulk are the ports that peers listen on. 0 means AcceptPort and
	// AcceptPortBulk. A NID cannot express a port.
	ConnectPort     int
	ConnectPortBulk int
	// AcceptBacklog is the backlog of the listeners.
	AcceptBacklog int
	// AcceptTimeout is the time limit for an inbound connection's request and HELLO together, and for
	// each write during connection setup.
	AcceptTimeout time.Duration
	// MaxHalfOpen and MaxHalfOpenPerSource limit the number of connections that have not completed
	// their HELLO, in total and per source address.
	MaxHalfOpen          int
	MaxHalfOpenPerSource int
	// SourcePorts selects the local ports of outgoing connections: SourcePrivileged (1023 down to 512),
	// SourceAny, or SourceAuto (privileged ports if the process may bind them, otherwise any).
	SourcePorts SourcePorts

	// SockTimeout is the LND timeout T. 0 means LNet's current timeout (lnd.Upper.LNDTimeout).
	SockTimeout time.Duration

	MinReconnect time.Duration // min_reconnectms
	MaxReconnect time.Duration // max_reconnectms
	EagerAck     int           // eager_ack, a mask over connection types
	TypedConns   bool          // typed_conns
	MinBulk      int           // min_bulk, size in bytes of a complete socket message
	TxBufferSize int           // tx_buffer_size, bytes; 0: the system default
	RxBufferSize int           // rx_buffer_size, bytes; 0: the system default
	Nagle        bool          // nagle
	RoundRobin   bool          // round_robin
	// Keepalive is the silence after which a NOOP is sent; 0 disables.
	Keepalive         time.Duration
	KeepaliveIdle     time.Duration // keepalive_idle; if any of the three is 0, TCP keepalive is off
	KeepaliveCount    int           // keepalive_count
	KeepaliveInterval time.Duration // keepalive_intvl
	EnableChecksum    bool          // enable_csum, on V2 connections
	NonblockingZCAck  bool          // nonblk_zcack
	// ConnsPerPeer is the number of BULK_IN and of BULK_OUT connections to each peer, 1 to 127. 0
	// derives it from the link speed.
	ConnsPerPeer int
	TOS          int // tos, 0 to 255; negative: not set
	// BusyPoll is how long connections are polled before a goroutine sleeps on them, from 0 (never) to
	// 10 ms. It has the name and meaning of the kernel's socket option (busy_poll). Polling shortens
	// latency, but keeps processors busy: at most GOMAXPROCS-1, so it needs at least two. Use it on
	// nodes with spare processors; 50 µs are enough if peers answer at once. With busy polling,
	// handlers for all messages, and not only for answers, may run in a goroutine that waits for an
	// answer. So waiting with a lock held that a handler acquires deadlocks.
	BusyPoll time.Duration

	// Network supplies the streams. If nil, it is the host's TCP.
	Network Network
	// Wall is the wall clock from which incarnations are derived. If nil, it is time.Now.
	Wall func() time.Time
	// Seed makes the jitter of reconnect intervals repeatable. 0 selects a random seed.
	Seed uint64
	// Logger is used if an interface's Config has no logger. If nil, lines are discarded.
	Logger *slog.Logger
}

// Options are the tunables that can be set per interface, in lnd.Config.Options, and changed later
// (lnd.Tuner). A negative ConnsPerPeer and nil fields select the driver's values. ConnsPerPeer 0
// derives the number from the link speed, Timeout 0 selects LNet's timeout, and BusyPoll 0 switches
// busy polling off.
type Options struct {
	ConnsPerPeer int
	TOS          *int
	Timeout      *time.Duration
	BusyPoll     *time.Duration
}

// Accept is an accept mode (lnet-wire 5.4).
type Accept uint8

// The accept modes.
const (
	AcceptSecure Accept = iota // source ports up to 1023 only
	AcceptAll                  // any source port
	AcceptNone                 // no acceptor
)

var acceptNames = [...]string{"secure", "all", "none"}

func (a Accept) String() string {
	if int(a) < len(acceptNames) {
		return acceptNames[a]
	}
	return fmt.Sprintf("accept %d", uint8(a))
}

// UnmarshalText reads "secure", "all" or "none".
func (a *Accept) UnmarshalText(text []byte) error {
	for i, name := range acceptNames {
		if string(text) == name {
			*a = Accept(i)
			return nil
		}
	}
	return fmt.Errorf("accept: %q is none of secure, all, none", text)
}

// SourcePorts selects the local ports of outgoing connections. A kernel peer accepts the identity in a
// HELLO only if the connection comes from a privileged port (socklnd 5.2).
type SourcePorts uint8

// Choices of local ports.
const (
	SourceAuto       SourcePorts = iota // privileged ports if the process may bind them, otherwise any
	SourcePrivileged                    // 1023 down to 512
	SourceAny                           // any port that the system assigns
)

// DefaultConfig returns the defaults of Lustre 2.17 (socklnd 19).
func DefaultConfig() Config {
	return Config{
		Tunables: lnd.Tunables{
			PeerTimeout: 180 * time.Second,
			PeerCredits: 8,
			Credits:     256,
		},
		AcceptPort:           988,
		AcceptPortBulk:       988,
		AcceptBacklog:        127,
		AcceptTimeout:        5 * time.Second,
		MaxHalfOpen:          256,
		MaxHalfOpenPerSource: 8,
		SockTimeout:          50 * time.Second,
		MinReconnect:         time.Second,
		MaxReconnect:         60 * time.Second,
		TypedConns:           true,
		MinBulk:              1024,
		RoundRobin:           true,
		Keepalive:            30 * time.Second,
		KeepaliveIdle:        30 * time.Second,
		KeepaliveCount:       5,
		KeepaliveInterval:    5 * time.Second,
		NonblockingZCAck:     true,
		TOS:                  -1,
	}
}

// UnprivilegedConfig returns a configuration for a node that any user may run. The node listens on port
// (1024 to 65535), connects to peers on the same port, and accepts connections from any source port.
// New rejects port 0, because other nodes could not be reached. All nodes of a net must use the same
// port. Kernel nodes connect to port 988 and cannot reach such a node. It can connect to kernel nodes
// loaded with accept=all if ConnectPort and ConnectPortBulk are set to 988.
func UnprivilegedConfig(port int) Config {
	c := DefaultConfig()
	c.AcceptPort, c.AcceptPortBulk = port, port
	c.Accept = AcceptAll
	return c
}

// Validate returns an error that names the first field that is out of range.
func (c *Config) Validate() error {
	bad := func(field string, v any, want string) error {
		return fmt.Errorf("socklnd: %s %v: %s", field, v, want)
	}
	port := func(p int) bool { return p >= 0 && p <= 65535 }
	switch {
	case int(c.Accept) >= len(acceptNames):
		return bad("accept", c.Accept, "not secure, all or none")
	case !port(c.AcceptPort):
		return bad("accept_port", c.AcceptPort, "not a port")
	case c.AcceptPort == 0 && c.ConnectPort == 0:
		return bad("accept_port", 0, "no port to call others at: set connect_port")
	case !port(c.AcceptPortBulk):
		return bad("accept_port_bulk", c.AcceptPortBulk, "not a port")
	case !port(c.ConnectPort):
		return bad("connect_port", c.ConnectPort, "not a port")
	case !port(c.ConnectPortBulk):
		return bad("connect_port_bulk", c.ConnectPortBulk, "not a port")
	case c.AcceptTimeout <= 0:
		return bad("accept_timeout", c.AcceptTimeout, "must be positive")
	case c.MaxHalfOpen < 1 || c.MaxHalfOpenPerSource < 1:
		return bad("half-open limit", min(c.MaxHalfOpen, c.MaxHalfOpenPerSource), "must be at least 1")
	case c.SockTimeout < 0:
		return bad("sock_timeout", c.SockTimeout, "must be positive, or 0 for LNet's")
	case c.MinReconnect <= 0 || c.MaxReconnect < c.MinReconnect:
		return bad("min_reconnectms, max_reconnectms", c.MinReconnect, "must be positive and in order")
	case c.MinBulk < 0:
		return bad("min_bulk", c.MinBulk, "must not be negative")
	case c.TxBufferSize < 0 || c.RxBufferSize < 0:
		return bad("tx_buffer_size, rx_buffer_size", min(c.TxBufferSize, c.RxBufferSize), "must not be negative")
	case c.ConnsPerPeer < 0 || c.ConnsPerPeer > 127:
		return bad("conns_per_peer", c.ConnsPerPeer, "must be 0 to 127")
	case c.TOS > 255:
		return bad("tos", c.TOS, "must be -1 to 255")
	case !mayPoll(c.BusyPoll):
		return bad("busy_poll", c.BusyPoll, "must be 0 to "+MaxBusyPoll.String())
	case !c.TypedConns:
		return bad("typed_conns", 0, "V3 and V4 send nothing on untyped connections")
	case c.Tunables.PeerCredits < 1 || c.Tunables.Credits < 1:
		return bad("credits, peer_credits", min(c.Tunables.PeerCredits, c.Tunables.Credits), "must be at least 1")
	}
	return nil
}

// MaxBusyPoll is the maximum of Config.BusyPoll. For longer waits, sleeping costs little in comparison.
const MaxBusyPoll = 10 * time.Millisecond

func mayPoll(d time.Duration) bool { return d >= 0 && d <= MaxBusyPoll }

// defaultTimeout is T if neither SockTimeout nor LNet defines it.
const defaultTimeout = 49 * time.Second
