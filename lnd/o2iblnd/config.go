package o2iblnd

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// Config is a driver's configuration. It holds ko2iblnd's module parameters under their usual names
// (o2iblnd 15), and additional settings for a program in user space. Start from DefaultConfig and
// change what differs.
type Config struct {
	// Tunables are the defaults for the flow-control tunables of each interface: credits, peer_credits
	// (the queue depth), peer_buffer_credits and peer_timeout.
	Tunables lnd.Tunables

	Service         int               // service, the port of all nodes of a net
	Checksum        protocol.Variant  // cksum: which checksums are sent, if any
	Check           protocol.Checking // ignore_cksum: whether checksums of peers are checked
	Timeout         time.Duration     // timeout; 0 selects LNet's timeout (lnd.Upper.LNDTimeout)
	Keepalive       time.Duration     // keepalive; 0 or less: off
	PeerCreditsHiw  int               // peer_credits_hiw, owed credits at which a NOOP returns them; 0: half of peer_credits
	ConcurrentSends int               // concurrent_sends, SENDs in flight on a connection; 0: peer_credits
	ConnsPerPeer    int               // conns_per_peer, 1 to 127; 0: 1
	WrqSge          int               // wrq_sge, pieces of memory per RDMA WRITE, 1 to 16
	RetryCount      int               // retry_count, 0 to 7
	RNRRetryCount   int               // rnr_retry_count, 0 to 7
	TOS             int               // tos, 0 to 255; -1: not set
	// RequirePrivilegedPort rejects callers from ports above 1023. UsePrivilegedPort makes this node
	// connect from such a port.
	RequirePrivilegedPort bool
	UsePrivilegedPort     bool

	// Pool limits the registered memory, in bytes, that payload in unregistered memory is copied through. The
	// limit applies twice: once to transfers that this node has started, and once to transfers that peers have
	// started.
	Pool int
	// MaxHalfOpen and MaxHalfOpenPerSource limit the number of inbound connections that are not
	// established yet, in total and per source address.
	MaxHalfOpen          int
	MaxHalfOpenPerSource int
	// Spin is the maximum time for which a worker polls a completion queue before it sleeps; 0: none. It polls only
	// while that finds completions, and while the processors are not busy (package polling).
	Spin time.Duration
	// RedialPause is the minimum time between a failed attempt to connect to a peer and the next attempt.
	RedialPause time.Duration

	// KernelOnly contains parameters that have no effect in this driver.
	KernelOnly KernelOnly

	// Provider is this process's access to RDMA. Required.
	Provider verbs.Provider
	// Host provides the network devices. If it is nil, they are those of this host.
	Host hostnet.Host
	// Wall is the wall clock from which incarnations are derived. If nil, it is time.Now.
	Wall func() time.Time
	// Logger is used if an interface's Config has no logger. If nil, lines are discarded.
	Logger *slog.Logger
}

// KernelOnly are tunables for ko2iblnd's memory registration and descriptors (o2iblnd 15). They have no
// effect in this driver. It stores them, so that the configuration exported from a kernel node can be
// imported and is shown unchanged.
type KernelOnly struct {
	MapOnDemand     int // map_on_demand
	FMRPoolSize     int // fmr_pool_size
	FMRFlushTrigger int // fmr_flush_trigger
	FMRCache        int // fmr_cache
	NTX             int // ntx
}

// Limits of several tunables.
const (
	maxSeconds = 1 << 24
	maxMany    = 1 << 20
	maxPerPeer = 127
	maxPieces  = 16
)

const module = "ko2iblnd"

// fields are the driver's tunables (o2iblnd 15).
var fields = slices.Concat(lnd.Fields[Config]{
	lnd.NumberIn(func(c *Config) *int { return &c.PeerCreditsHiw }, lnd.Tunable{
		Name: "peercredits_hiw", Parameter: "peer_credits_hiw", Module: module, Max: math.MaxInt32,
		Help: "number of owed credits returned at once; 0: half of peer_credits",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.KernelOnly.MapOnDemand }, lnd.Tunable{
		Name: "map_on_demand", Parameter: "map_on_demand", Module: module, Kind: lnd.Bool, Max: math.MaxInt32, Default: 1,
		Help: "without effect: memory is always registered on demand",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.ConcurrentSends }, lnd.Tunable{
		Name: "concurrent_sends", Parameter: "concurrent_sends", Module: module, Max: math.MaxInt32,
		Help: "most work requests in progress to one peer; 0: peer_credits",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.KernelOnly.FMRPoolSize }, lnd.Tunable{
		Name: "fmr_pool_size", Parameter: "fmr_pool_size", Module: module, Max: math.MaxInt32, Default: 512,
		Help: "without effect: registrations of memory that kernels keep",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.KernelOnly.FMRFlushTrigger }, lnd.Tunable{
		Name: "fmr_flush_trigger", Parameter: "fmr_flush_trigger", Module: module, Max: math.MaxInt32, Default: 384,
		Help: "without effect: unused registrations before kernels drop them",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.KernelOnly.FMRCache }, lnd.Tunable{
		Name: "fmr_cache", Parameter: "fmr_cache", Module: module, Max: math.MaxInt32, Default: 1,
		Help: "without effect: whether kernels use registrations again",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.KernelOnly.NTX }, lnd.Tunable{
		Name: "ntx", Parameter: "ntx", Module: module, Max: math.MaxInt32, Default: 512,
		Help: "without effect: messages in progress in kernels",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.ConnsPerPeer }, lnd.Tunable{
		Name: "conns_per_peer", Parameter: "conns_per_peer", Module: module, Max: maxPerPeer, Default: 1, Live: true, Letter: "m",
		Help: "connections per peer; 0: 1",
	}),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.Timeout }, lnd.Tunable{
		Name: "timeout", Parameter: "timeout", Module: module, Max: maxSeconds, Default: 50, Unit: lnd.Seconds, Live: true, PerNet: true,
		Help: "time without progress until a message fails; 0: lnd_timeout",
	}),
	lnd.TOSIn(func(c *Config) *int { return &c.TOS }, module),
	lnd.NumberIn(func(c *Config) *int { return &c.Service }, lnd.Tunable{
		Parameter: "service", Module: module, Min: 1, Max: 65535, Default: 987,
		Help: "port, the same on all nodes of a net",
	}),
	lnd.NumberIn(func(c *Config) *protocol.Variant { return &c.Checksum }, lnd.Tunable{
		Parameter: "cksum", Module: module, Max: int64(protocol.Signed),
		Help: "send checksums: 1 as kernels since 6.2, 2 as older ones on x86",
	}),
	lnd.NumberIn(func(c *Config) *protocol.Checking { return &c.Check }, lnd.Tunable{
		Parameter: "ignore_cksum", Max: 1,
		Help: "1: ignore checksums of peers",
	}),
	lnd.KeepaliveIn(func(c *Config) *time.Duration { return &c.Keepalive }, module, 100),
}, lnd.FlowIn(func(c *Config) *lnd.Tunables { return &c.Tunables }, module, "; the queue depth, 8 to 255"), lnd.Fields[Config]{
	lnd.NumberIn(func(c *Config) *int { return &c.WrqSge }, lnd.Tunable{
		Parameter: "wrq_sge", Module: module, Min: 1, Max: maxPieces, Default: 2,
		Help: "most pieces of memory in an RDMA WRITE",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.RetryCount }, lnd.Tunable{
		Parameter: "retry_count", Module: module, Max: 7, Default: 5,
		Help: "how often a device repeats a request",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.RNRRetryCount }, lnd.Tunable{
		Parameter: "rnr_retry_count", Module: module, Max: 7, Default: 6,
		Help: "the same if the peer has no buffer; 7: for ever",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.RequirePrivilegedPort }, lnd.Tunable{
		Parameter: "require_privileged_port", Module: module,
		Help: "reject callers from ports above 1023",
	}),
	lnd.BoolIn(func(c *Config) *bool { return &c.UsePrivilegedPort }, lnd.Tunable{
		Parameter: "use_privileged_port", Module: module, Default: 1,
		Help: "connect from ports up to 1023",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.Pool }, lnd.Tunable{
		Parameter: "pool", Min: 4, Max: maxMany, Default: 64, Unit: lnd.MiB,
		Help: "size of each of two pools of memory that unregistered data is copied through",
	}),
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.Spin }, lnd.Tunable{
		Parameter: "spin", Max: maxMany, Default: 50, Unit: lnd.Microseconds,
		Help: "most time to poll before sleeping; 0: none",
	}),
}, lnd.CallersIn(func(c *Config) *int { return &c.MaxHalfOpen }, func(c *Config) *int { return &c.MaxHalfOpenPerSource }, 127))

// Table returns the driver's tunables.
func Table() lnd.Table {
	return lnd.Table{
		Type: lnet.TypeO2IB, Section: "o2iblnd", About: "Parameters of the driver for RDMA, named as ko2iblnd's module parameters.",
		Tunables: fields.Tunables(), Module: module,
		Unused: []string{"dev_failover", "ib_mtu", "ipif_name", "nscheds", "use_fastreg_gaps"},
	}
}

// Set sets the tunable of the Table whose Parameter is name. It returns an error if no tunable has this
// name, or if v is outside its range.
func (c *Config) Set(name string, v int64) error { return fields.Set(c, name, v) }

// Values returns the tunables in force for an interface that does not set any itself.
func (c *Config) Values() lnd.Values { return c.values(c.Tunables.PeerCredits) }

// values returns the tunables in force for an interface with the given queue depth.
func (c *Config) values(depth int) lnd.Values {
	o := *c
	f := c.flow(depth).Resolved()
	o.PeerCreditsHiw, o.ConcurrentSends, o.ConnsPerPeer = f.HighWater, f.ConcurrentSends, max(c.ConnsPerPeer, 1)
	return fields.Values(&o)
}

// flow returns the tunables that concern credits, for the given queue depth (o2iblnd 15).
func (c *Config) flow(depth int) protocol.Flow {
	return protocol.Flow{PeerCredits: depth, HighWater: c.PeerCreditsHiw, ConcurrentSends: c.ConcurrentSends}
}

// DefaultConfig returns the defaults of Lustre 2.17 (o2iblnd 15).
func DefaultConfig() Config {
	c := Config{RedialPause: time.Second}
	fields.SetDefaults(&c)
	return c
}

// defaultTimeout is the LND timeout if neither Config nor the node (lnd.Upper.LNDTimeout) defines one.
const defaultTimeout = 50 * time.Second

// minPool is the minimum of Config.Pool. It is enough for one message of each kind with the maximum payload.
const minPool = 4 * lnet.MTU

// Validate returns an error that names the first field that is out of range. It does not check
// Provider.
func (c *Config) Validate() error {
	switch err := fields.Validate(c); {
	case err != nil:
		return fmt.Errorf("o2iblnd: %w", err)
	case c.Pool < minPool:
		return fmt.Errorf("o2iblnd: pool %d: must be 4 MiB or more", c.Pool)
	case c.RedialPause < 0:
		return fmt.Errorf("o2iblnd: redial pause %s: must not be negative", c.RedialPause)
	}
	return nil
}
