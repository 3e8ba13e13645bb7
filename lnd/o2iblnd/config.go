package o2iblnd

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
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

	Service         int              // service, the port of all nodes of a net
	Checksum        protocol.Variant // cksum, and how its bytes are interpreted
	Check           protocol.Checking
	Timeout         time.Duration // timeout; 0 selects LNet's timeout (lnd.Upper.LNDTimeout)
	Keepalive       time.Duration // keepalive; 0 or less: off
	PeerCreditsHiw  int           // peer_credits_hiw; 0: half of peer_credits
	ConcurrentSends int           // concurrent_sends; 0: peer_credits
	ConnsPerPeer    int           // conns_per_peer, 1 to 127; 0: 1
	WrqSge          int           // wrq_sge, pieces of memory per RDMA WRITE, 1 to 16
	RetryCount      int           // retry_count, 0 to 7
	RNRRetryCount   int           // rnr_retry_count, 0 to 7
	TOS             int           // tos, 0 to 255; negative: not set
	// RequirePrivilegedPort rejects callers from ports above 1023. UsePrivilegedPort makes this node
	// connect from such a port.
	RequirePrivilegedPort bool
	UsePrivilegedPort     bool

	// Pool limits the memory, in bytes, for payload in unregistered memory. The limit applies once to
	// requests of this node and once to requests of peers.
	Pool int
	// MaxHalfOpen and MaxHalfOpenPerSource limit the number of inbound connections that are not
	// established yet, in total and per source address.
	MaxHalfOpen          int
	MaxHalfOpenPerSource int
	// Spin is how long a worker polls a completion queue before it sleeps.
	Spin time.Duration
	// RedialPause is the minimum time between a failed attempt to connect to a peer and the next.
	RedialPause time.Duration

	// KernelOnly are parameters without an effect in this driver.
	KernelOnly KernelOnly

	// Provider is this process's access to RDMA. Required.
	Provider verbs.Provider
	// Network gives access to the host's network devices. If it is nil, interfaces are opened by NID,
	// and the link state depends on their RDMA ports only.
	Network Network
	// Wall is the wall clock from which incarnations are derived. If nil, it is time.Now.
	Wall func() time.Time
	// Logger is used if an interface's Config has no logger. If nil, lines are discarded.
	Logger *slog.Logger
}

// Network provides information about a host's network devices.
type Network interface {
	// Device returns a device by its name or, if the name is empty, by the address of the NID.
	Device(name string, nid lnet.NID) (NetDevice, error)
	// Watch calls changed after each change of a device, until ctx ends.
	Watch(ctx context.Context, changed func()) error
}

// NetDevice is a network device.
type NetDevice struct {
	Name      string
	Off       bool // switched off; then Up is false
	NoCarrier bool // without a carrier; then Up is false
	Up        bool // operational
	Addrs     []netip.Addr
}

// Options are the tunables that can be set per interface, in lnd.Config.Options, and changed later
// (lnd.Tuner). A negative number, a nil TOS and a nil Timeout select the driver's values.
type Options struct {
	ConnsPerPeer    int
	PeerCreditsHiw  int
	ConcurrentSends int
	TOS             *int
	Timeout         *time.Duration
	KernelOnly      KernelOnly
}

// KernelOnly are tunables for ko2iblnd's memory registration and descriptors (o2iblnd 15). They have no
// effect in this driver. It stores them, so that the configuration exported from a kernel node can be
// imported and is shown unchanged. In Options, a negative value selects the driver's.
type KernelOnly struct {
	MapOnDemand     int // map_on_demand
	FMRPoolSize     int // fmr_pool_size
	FMRFlushTrigger int // fmr_flush_trigger
	FMRCache        int // fmr_cache
	NTX             int // ntx
}

// DefaultOptions returns options that select the driver's value for every tunable.
func DefaultOptions() Options {
	return Options{
		ConnsPerPeer: -1, PeerCreditsHiw: -1, ConcurrentSends: -1,
		KernelOnly: KernelOnly{MapOnDemand: -1, FMRPoolSize: -1, FMRFlushTrigger: -1, FMRCache: -1, NTX: -1},
	}
}

// DefaultConfig returns the defaults of Lustre 2.17 (o2iblnd 15).
func DefaultConfig() Config {
	return Config{
		Tunables:             lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256},
		Service:              987,
		Timeout:              defaultTimeout,
		Keepalive:            100 * time.Second,
		ConnsPerPeer:         1,
		WrqSge:               2,
		RetryCount:           5,
		RNRRetryCount:        6,
		TOS:                  -1,
		UsePrivilegedPort:    true,
		Pool:                 64 << 20,
		MaxHalfOpen:          256,
		MaxHalfOpenPerSource: 127,
		RedialPause:          time.Second,
		KernelOnly:           KernelOnly{MapOnDemand: 1, FMRPoolSize: 512, FMRFlushTrigger: 384, FMRCache: 1, NTX: 512},
	}
}

const (
	// defaultTimeout is T if neither Config nor LNet defines it.
	defaultTimeout = 50 * time.Second
	maxPerPeer     = 127
	maxPieces      = 16
	// minPool is enough for one message of each kind.
	minPool = 4 * lnet.MTU
)

// Validate returns an error that names the first field that is out of range. It does not check
// Provider.
func (c *Config) Validate() error {
	bad := func(field string, v any, want string) error { return fmt.Errorf("o2iblnd: %s %v: %s", field, v, want) }
	switch {
	case c.Service < 1 || c.Service > 65535:
		return bad("service", c.Service, "not a port")
	case c.Checksum > protocol.Signed:
		return bad("cksum", c.Checksum, "no such variant")
	case c.Timeout < 0:
		return bad("timeout", c.Timeout, "must be positive, or 0 for LNet's")
	case c.ConnsPerPeer < 0 || c.ConnsPerPeer > maxPerPeer:
		return bad("conns_per_peer", c.ConnsPerPeer, "must be 0 to 127")
	case c.WrqSge < 1 || c.WrqSge > maxPieces:
		return bad("wrq_sge", c.WrqSge, "must be 1 to 16")
	case c.RetryCount < 0 || c.RetryCount > 7:
		return bad("retry_count", c.RetryCount, "must be 0 to 7")
	case c.RNRRetryCount < 0 || c.RNRRetryCount > 7:
		return bad("rnr_retry_count", c.RNRRetryCount, "must be 0 to 7")
	case c.TOS > 255:
		return bad("tos", c.TOS, "must be -1 to 255")
	case c.PeerCreditsHiw < 0 || c.ConcurrentSends < 0:
		return bad("peer_credits_hiw, concurrent_sends", min(c.PeerCreditsHiw, c.ConcurrentSends), "must not be negative")
	case c.Tunables.PeerCredits < 1 || c.Tunables.Credits < 1:
		return bad("credits, peer_credits", min(c.Tunables.PeerCredits, c.Tunables.Credits), "must be at least 1")
	case c.Pool < minPool:
		return bad("pool", c.Pool, "must be 4 MiB or more")
	case c.MaxHalfOpen < 1 || c.MaxHalfOpenPerSource < 1:
		return bad("half-open limit", min(c.MaxHalfOpen, c.MaxHalfOpenPerSource), "must be at least 1")
	case c.Spin < 0 || c.RedialPause < 0:
		return bad("spin, redial pause", min(c.Spin, c.RedialPause), "must not be negative")
	}
	return nil
}
