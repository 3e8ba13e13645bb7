package socklnd

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
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
	// AcceptPort is the port that the acceptor listens on, by default 988. If it is another port, only peers
	// whose ConnectPort is set to it can reach this node.
	AcceptPort int
	// AcceptPortBulk is the port for connections other than CONTROL. If it is 0 or equals AcceptPort,
	// there is one listener.
	AcceptPortBulk int
	// ConnectPort and ConnectPortBulk are the ports on which all peers are assumed to listen, because a NID
	// does not contain a port. 0 means AcceptPort and AcceptPortBulk.
	ConnectPort     int
	ConnectPortBulk int
	// AcceptBacklog is the backlog of the listening sockets: how many connections may wait to be accepted. Its default
	// is higher than Lustre's 127, beyond which TCP delays callers by one or more seconds: all clients of a server may
	// connect at the same time after it has restarted. The system's limit (net.core.somaxconn) applies too.
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
	EagerAck     int           // eager_ack, a mask of the connection types whose TCP acknowledges without delay
	TypedConns   bool          // typed_conns; must be true
	MinBulk      int           // min_bulk: from this size in bytes, headers included, messages use BULK connections
	TxBufferSize int           // tx_buffer_size, bytes; 0: the system default, or loopbackBuffer within the host
	RxBufferSize int           // rx_buffer_size, bytes; 0: the system default
	Nagle        bool          // nagle: TCP delays small segments
	RoundRobin   bool          // round_robin: alternate between connections with equal load
	// Keepalive is how long a peer must be silent before it is sent a NOOP. 0 disables this.
	Keepalive         time.Duration
	KeepaliveIdle     time.Duration // keepalive_idle; if this or one of the next two is 0, TCP keepalive is off
	KeepaliveCount    int           // keepalive_count
	KeepaliveInterval time.Duration // keepalive_intvl
	EnableChecksum    bool          // enable_csum: send checksums on V2 connections
	// InjectChecksumError makes the first checksum that each interface sends wrong, to test the peer
	// (inject_csum_error). A correct peer then closes its connections to this node.
	InjectChecksumError bool
	NonblockingZCAck    bool // nonblk_zcack: acknowledge zero-copy requests by non-blocking NOOPs
	// ConnsPerPeer is the number of BULK_IN connections, and also of BULK_OUT connections, to each peer: 1 to
	// 127. If it is 0, the number depends on the link speed.
	ConnsPerPeer int
	TOS          int // tos, 0 to 255; negative: not set
	// BusyPoll is how long a goroutine polls a connection before it sleeps on it, from 0 (never) to 10 ms. It
	// has the name and meaning of the kernel's socket option (busy_poll). Polling shortens latency, but keeps
	// up to GOMAXPROCS-1 processors busy, so it needs at least two. Use it on nodes with spare processors; 50
	// µs are enough if peers answer immediately.
	//
	// With busy polling, a goroutine that waits for an answer may run the handlers of all messages, not only
	// of answers. A program that waits with a lock held that a handler acquires therefore deadlocks.
	BusyPoll time.Duration

	// Network is where the driver opens its streams. If it is nil, the driver uses the host's TCP.
	Network Network
	// Wall is the wall clock from which incarnations are derived. If nil, it is time.Now.
	Wall func() time.Time
	// Seed makes the jitter of reconnect intervals repeatable. 0 selects a random seed.
	Seed uint64
	// Logger is used if an interface's Config has no logger. If nil, lines are discarded.
	Logger *slog.Logger
}

// Limits of several tunables.
const (
	maxSeconds = 1 << 24
	maxBytes   = 1 << 30
	maxBackoff = 3600_000 // milliseconds
	maxPort    = 65535
)

const module = "ksocklnd"

// fields are the driver's tunables (socklnd 19, lnet-wire 5.4).
var fields = slices.Concat(lnd.Fields[Config]{
	lnd.NumberIn(func(c *Config) *int { return &c.ConnsPerPeer }, lnd.Tunable{
		Name: "conns_per_peer", Parameter: "conns_per_peer", Module: module, Max: 127, Live: true, Auto: true, Letter: "m",
		Help: "connections per peer; 0: by the link's speed",
	}),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.SockTimeout }, lnd.Tunable{
		Name: "timeout", Parameter: "sock_timeout", Module: module, Max: maxSeconds, Default: 50, Unit: lnd.Seconds, Live: true, PerNet: true,
		Help: "time without progress until a message fails; 0: lnd_timeout",
	}),
	lnd.TOSIn(func(c *Config) *int { return &c.TOS }, module),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.BusyPoll }, lnd.Tunable{
		Name: "busy_poll", Parameter: "busy_poll", Max: int64(MaxBusyPoll / time.Microsecond), Unit: lnd.Microseconds, Live: true,
		Help: "time to poll sockets before sleeping; 0: never",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.AcceptPortBulk }, lnd.Tunable{
		Parameter: "accept_port_bulk", Module: "lnet", Max: maxPort,
		Help: "port to accept bulk connections on; 0: port",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.ConnectPortBulk }, lnd.Tunable{
		Parameter: "connect_port_bulk", Max: maxPort,
		Help: "port to open bulk connections to; 0: connect_port",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.AcceptBacklog }, lnd.Tunable{
		Parameter: "accept_backlog", Module: "lnet", Min: 1, Max: 4096, Default: 4096,
		Help: "most connections that wait to be accepted",
	}),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.AcceptTimeout }, lnd.Tunable{
		Parameter: "accept_timeout", Module: "lnet", Min: 1, Max: 3600, Default: 5, Unit: lnd.Seconds,
		Help: "time within which a caller must complete the handshake",
	}),
}, lnd.FlowIn(func(c *Config) *lnd.Tunables { return &c.Tunables }, module, ""), lnd.Fields[Config]{
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.MinReconnect }, lnd.Tunable{
		Parameter: "min_reconnectms", Module: module, Min: 1, Max: maxBackoff, Default: 1000, Unit: lnd.Milliseconds,
		Help: "shortest pause between attempts to connect",
	}),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.MaxReconnect }, lnd.Tunable{
		Parameter: "max_reconnectms", Module: module, Min: 1, Max: maxBackoff, Default: 60_000, Unit: lnd.Milliseconds,
		Help: "longest pause between attempts to connect",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.EagerAck }, lnd.Tunable{
		Parameter: "eager_ack", Module: module, Max: 15,
		Help: "mask of the connection types on which TCP acknowledges at once",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.TypedConns }, lnd.Tunable{
		Parameter: "typed_conns", Module: module, Default: 1,
		Help: "use separate connections for bulk data",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.MinBulk }, lnd.Tunable{
		Parameter: "min_bulk", Module: module, Max: maxBytes, Default: 1024, Unit: lnd.Bytes,
		Help: "size from which messages go on bulk connections",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.TxBufferSize }, lnd.Tunable{
		Parameter: "tx_buffer_size", Module: module, Max: maxBytes, Unit: lnd.Bytes,
		Help: "send buffer of a socket; 0: 524288 within the host if net.core.wmem_max permits that, otherwise the system's choice",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.RxBufferSize }, lnd.Tunable{
		Parameter: "rx_buffer_size", Module: module, Max: maxBytes, Unit: lnd.Bytes,
		Help: "receive buffer of a socket; 0: the system's choice",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.Nagle }, lnd.Tunable{
		Parameter: "nagle", Module: module,
		Help: "use Nagle's algorithm, which delays small segments",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.RoundRobin }, lnd.Tunable{
		Parameter: "round_robin", Module: module, Default: 1,
		Help: "use connections with equal load in turn",
	}),
	lnd.KeepaliveIn(func(c *Config) *time.Duration { return &c.Keepalive }, module, 30),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.KeepaliveIdle }, lnd.Tunable{
		Parameter: "keepalive_idle", Module: module, Max: maxSeconds, Default: 30, Unit: lnd.Seconds,
		Help: "silence before a TCP keepalive probe; 0: no probes",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.KeepaliveCount }, lnd.Tunable{
		Parameter: "keepalive_count", Module: module, Max: maxSeconds, Default: 5,
		Help: "lost probes before a connection is closed; 0: no probes",
	}),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.KeepaliveInterval }, lnd.Tunable{
		Parameter: "keepalive_intvl", Module: module, Max: maxSeconds, Default: 5, Unit: lnd.Seconds,
		Help: "pause between probes; 0: no probes",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.EnableChecksum }, lnd.Tunable{
		Parameter: "enable_csum", Module: module,
		Help: "send checksums on V2 connections",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.InjectChecksumError }, lnd.Tunable{
		Parameter: "inject_csum_error", Module: module,
		Help: "make the first checksum of an NI wrong, to test peers",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.NonblockingZCAck }, lnd.Tunable{
		Parameter: "nonblk_zcack", Module: module, Default: 1,
		Help: "acknowledge zero-copy messages without blocking",
	}),
}, lnd.CallersIn(func(c *Config) *int { return &c.MaxHalfOpen }, func(c *Config) *int { return &c.MaxHalfOpenPerSource }, 8))

// Table returns the driver's tunables.
func Table() lnd.Table {
	return lnd.Table{
		Type: lnet.TypeTCP, Section: "socklnd", About: "Parameters of the TCP driver, named as ksocklnd's module parameters.",
		Tunables: fields.Tunables(), Module: module,
		Unused: []string{
			"enable_irq_affinity", "nconnds", "nconnds_max", "nscheds", "skip_mr_route_setup", "zc_min_payload",
			"zc_recv", "zc_recv_min_nfrags",
		},
	}
}

// Set sets the tunable of the Table whose Parameter is name. It returns an error if no tunable has this
// name, or if v is outside its range.
func (c *Config) Set(name string, v int64) error { return fields.Set(c, name, v) }

// Values returns the tunables in force for an interface that does not set any itself.
func (c *Config) Values() lnd.Values { return fields.Values(c) }

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
	return fmt.Errorf("accept: %q is not secure, all or none", text)
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

// DefaultConfig returns the defaults of Lustre 2.17 (socklnd 19), except that of AcceptBacklog.
func DefaultConfig() Config {
	c := Config{AcceptPort: 988}
	fields.SetDefaults(&c)
	return c
}

// UnprivilegedConfig returns a configuration for a node that any user may run. The node listens on port (1024
// to 65535), connects to peers on the same port, and accepts connections from any source port. All nodes of a
// net must use the same port. Kernel nodes connect to port 988 and cannot reach such a node. It can connect
// to kernel nodes that were loaded with accept=all if ConnectPort and ConnectPortBulk are set to 988. New
// rejects a configuration with port 0, because the node would not know on which port to connect to peers.
func UnprivilegedConfig(port int) Config {
	c := DefaultConfig()
	c.AcceptPort = port
	c.Accept = AcceptAll
	return c
}

// Validate returns an error that names the first field that is out of range.
func (c *Config) Validate() error {
	bad := func(field string, v any, want string) error {
		return fmt.Errorf("socklnd: %s %v: %s", field, v, want)
	}
	port := func(p int) bool { return p >= 0 && p <= maxPort }
	switch {
	case int(c.Accept) >= len(acceptNames):
		return bad("accept", c.Accept, "not secure, all or none")
	case !port(c.AcceptPort):
		return bad("accept_port", c.AcceptPort, "not a port")
	case c.AcceptPort == 0 && c.ConnectPort == 0:
		return bad("accept_port", 0, "there is no port to connect to: set connect_port")
	case !port(c.ConnectPort):
		return bad("connect_port", c.ConnectPort, "not a port")
	case c.MaxReconnect < c.MinReconnect:
		return bad("max_reconnectms", c.MaxReconnect, "less than min_reconnectms")
	case !c.TypedConns:
		return bad("typed_conns", 0, "V3 and V4 send nothing on untyped connections")
	}
	if err := fields.Validate(c); err != nil {
		return fmt.Errorf("socklnd: %w", err)
	}
	return nil
}

// MaxBusyPoll is the maximum of Config.BusyPoll. Polling saves the cost of sleeping and waking, which is
// small compared with longer waits.
const MaxBusyPoll = 10 * time.Millisecond

// defaultTimeout is the LND timeout if neither SockTimeout nor the node (lnd.Upper.LNDTimeout) defines one.
const defaultTimeout = 49 * time.Second
