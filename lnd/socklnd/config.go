package socklnd

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// Config is a driver's configuration: ksocklnd's module parameters under
// their own names (socklnd 19) and the acceptor's (lnet-wire 5.4), plus what a
// program in user space needs besides. Take DefaultConfig or UnprivilegedConfig, and
// change it.
type Config struct {
	// Tunables are the defaults for the flow-control tunables of each
	// interface (credits, peer_credits, peer_buffer_credits, peer_timeout).
	Tunables lnd.Tunables

	// Accept says which source ports may connect: AcceptSecure,
	// AcceptAll or AcceptNone.
	Accept Accept
	// AcceptPort is the port that the acceptor listens on; 988. A node that
	// listens elsewhere is reached only by peers that know.
	AcceptPort int
	// AcceptPortBulk is the port for connections other than CONTROL; where it
	// equals AcceptPort there is one listener.
	AcceptPortBulk int
	// ConnectPort and ConnectPortBulk are the ports that peers are called on;
	// 0 means AcceptPort and AcceptPortBulk. A NID cannot express a port.
	ConnectPort     int
	ConnectPortBulk int
	// AcceptBacklog is the listeners' backlog.
	AcceptBacklog int
	// AcceptTimeout bounds a newcomer's request and HELLO as a whole, and each
	// write of ours during set-up.
	AcceptTimeout time.Duration
	// MaxHalfOpen and MaxHalfOpenPerSource bound the connections that have
	// not finished their HELLO, in all and per source address.
	MaxHalfOpen          int
	MaxHalfOpenPerSource int
	// SourcePorts says which local ports connections leave from:
	// SourcePrivileged (1023 down to 512), SourceAny, or SourceAuto:
	// privileged if the process may bind them, else any.
	SourcePorts SourcePorts

	// SockTimeout is the LND timeout T; 0 takes that of LNet, whatever it is at
	// the time (lnd.Upper.LNDTimeout).
	SockTimeout time.Duration

	MinReconnect time.Duration // min_reconnectms
	MaxReconnect time.Duration // max_reconnectms
	EagerAck     int           // eager_ack, a mask over connection types
	TypedConns   bool          // typed_conns
	MinBulk      int           // min_bulk, bytes of a whole socket message
	TxBufferSize int           // tx_buffer_size, bytes, 0: the system's choice
	RxBufferSize int           // rx_buffer_size, bytes, 0: the system's choice
	Nagle        bool          // nagle
	RoundRobin   bool          // round_robin
	// Keepalive is the silence after which a NOOP is sent; 0 disables.
	Keepalive         time.Duration
	KeepaliveIdle     time.Duration // keepalive_idle; any of the three 0 disables TCP keepalive
	KeepaliveCount    int           // keepalive_count
	KeepaliveInterval time.Duration // keepalive_intvl
	EnableChecksum    bool          // enable_csum, on V2 connections
	NonblockingZCAck  bool          // nonblk_zcack
	// ConnsPerPeer is the number of BULK_IN and of BULK_OUT connections with
	// each peer, 1 to 127; 0 derives it from the link speed.
	ConnsPerPeer int
	TOS          int // tos, 0 to 255, negative: off
	// BusyPoll is how long connections are watched before anybody sleeps for what they
	// bring, 0 (never) to 10 ms (busy_poll, whose name and meaning are those of the kernel's
	// socket option). Answers come sooner, and a processor is busy meanwhile: GOMAXPROCS less
	// one at most, so that it takes two. It is for nodes that have processors to spare; 50 µs
	// do where peers answer at once. A program's handlers of all messages may then run in a
	// goroutine that waits for an answer, as those of answers may at any time: who waits with
	// a lock held that a handler takes waits forever.
	BusyPoll time.Duration

	// Network supplies the streams; nil is the host's TCP.
	Network Network
	// Wall is the wall clock that incarnations are taken from; nil is
	// time.Now.
	Wall func() time.Time
	// Seed makes the jitter of reconnect intervals repeatable; 0 takes a
	// random one.
	Seed uint64
	// Logger is used where an interface's Config has none; nil discards.
	Logger *slog.Logger
}

// Options are the tunables that one interface may have to itself; they go into
// lnd.Config.Options, and may be changed later (lnd.Tuner). A negative ConnsPerPeer and
// whatever is nil take the driver's; ConnsPerPeer 0 follows from the link speed, Timeout 0
// is LNet's, BusyPoll 0 never.
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

// SourcePorts says which local ports connections leave from. Kernels take a
// node for what its HELLO says only if it calls from a privileged port
// (socklnd 5.2).
type SourcePorts uint8

// Which local ports to call from.
const (
	SourceAuto       SourcePorts = iota // privileged ones if the process may bind them
	SourcePrivileged                    // 1023 down to 512
	SourceAny                           // whatever the system gives
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

// UnprivilegedConfig returns DefaultConfig with what a node needs that any user may
// run: it listens on port, 1024 to 65535, calls others there, and takes callers from
// any source port; New refuses port 0, at which nobody could be called. All nodes of a
// net must have the same port. Kernel nodes, which call 988, do not find it; those
// loaded with accept=all can be called if ConnectPort and ConnectPortBulk are set to
// 988.
func UnprivilegedConfig(port int) Config {
	c := DefaultConfig()
	c.AcceptPort, c.AcceptPortBulk = port, port
	c.Accept = AcceptAll
	return c
}

// Validate names the first field that is out of range.
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

// MaxBusyPoll is the longest Config.BusyPoll: who needs longer is well served by sleeping.
const MaxBusyPoll = 10 * time.Millisecond

func mayPoll(d time.Duration) bool { return d >= 0 && d <= MaxBusyPoll }

// defaultTimeout is T where neither SockTimeout nor LNet says what it is.
const defaultTimeout = 49 * time.Second
