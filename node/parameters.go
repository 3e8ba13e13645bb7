package node

import (
	"fmt"
	"math"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// ResponseTracking says which requests are watched for a missing response,
// unless their MD says otherwise (lnet-core 6.4).
type ResponseTracking uint8

// The values are those of lnet_response_tracking.
const (
	TrackNone ResponseTracking = iota
	TrackGets
	TrackPuts
	TrackAll
)

// MaxHealth is the health of an NI or a peer NI that nothing is known against
// (discovery 9.1).
const MaxHealth = 1000

// Parameters are what may be changed while a node runs (lnet-core 6.5, 13).
type Parameters struct {
	// TransactionTimeout is how long a response may take: more than RetryCount
	// seconds.
	TransactionTimeout time.Duration
	// RetryCount is how often a message may be sent again; 0 if
	// HealthSensitivity is.
	RetryCount int
	// HealthSensitivity is what a failure costs an NI or a peer NI, 0 to 1000;
	// 0 leaves health as it is.
	HealthSensitivity int
	// ResponseTracking says which requests are watched.
	ResponseTracking ResponseTracking
	// RecoveryLimit is how long a silent peer NI is pinged to see whether it is
	// back; 0: for ever.
	RecoveryLimit time.Duration
	// MaxRecoveryPingInterval bounds the pause between such pings, a second or
	// more.
	MaxRecoveryPingInterval time.Duration

	// Discovery says what is made of what peers tell of themselves.
	Discovery discovery.Mode
	// InterfacesMax bounds NIs and the entries of ping info taken, 0@lo
	// included; less than 16: 4096.
	InterfacesMax int
	// PeerNIsMax bounds the NIDs of peers that nobody configured; less than 16:
	// 65,536.
	PeerNIsMax int
	// NUMARange is the NUMA distance up to which NIs count as equally near.
	NUMARange uint32

	// RouterCheckInterval is how often each net of a gateway is checked; 0: not
	// at all, a gateway is discovered when it is first used.
	RouterCheckInterval time.Duration
	// RouterPingTimeout is how long a router waits beyond RouterCheckInterval
	// for pings from others before it calls the NIs of a net down.
	RouterPingTimeout time.Duration
	// DropAsymRoute drops messages from routers by which nothing is sent back.
	DropAsymRoute bool
	// AsymmetricRoutes keeps single-hop routes in use when their gateway is
	// down on the remote net (avoid_asym_router_failure is 0).
	AsymmetricRoutes bool
	// CheckRoutersBeforeUse makes new routes, and their gateways, count as down
	// until the first check.
	CheckRoutersBeforeUse bool
	// IgnorePeerDown ignores what drivers tell of lost peers (auto_down is 0).
	IgnorePeerDown bool
	// PeerBufferCredits is how many router buffers a neighbour may hold on nets
	// that say nothing of it; 0: as many as it has peer credits.
	PeerBufferCredits int
}

// DefaultParameters are those of a kernel node.
func DefaultParameters() Parameters {
	return Parameters{
		TransactionTimeout:      150 * time.Second,
		RetryCount:              2,
		HealthSensitivity:       100,
		ResponseTracking:        TrackAll,
		MaxRecoveryPingInterval: 900 * time.Second,
		InterfacesMax:           lnet.InterfacesMax,
		PeerNIsMax:              PeerNIsMax,
		RouterCheckInterval:     60 * time.Second,
		RouterPingTimeout:       50 * time.Second,
	}
}

// LNDTimeout is the LND timeout that follows from p: that of drivers which are
// told none of their own, running ones too.
func (p *Parameters) LNDTimeout() time.Duration {
	return max((p.TransactionTimeout-time.Second)/time.Duration(p.RetryCount+1), time.Second).Truncate(time.Second)
}

// longest bounds every time, so that none overflows: as many seconds as a
// kernel's parameter can say.
const longest = math.MaxInt32 * time.Second

// normalize puts what is allowed, but not used as it is, in its place.
func (p *Parameters) normalize() {
	if p.InterfacesMax < lnet.InterfacesMin { // as kernels do
		p.InterfacesMax = lnet.InterfacesMax
	}
	if p.PeerNIsMax < PeerNIsMin {
		p.PeerNIsMax = PeerNIsMax
	}
}

// check says what of p makes no sense.
func (p *Parameters) check() error {
	switch {
	case p.RetryCount < 0:
		return fmt.Errorf("retry count %d: %w", p.RetryCount, ErrInvalid)
	case p.TransactionTimeout <= time.Duration(p.RetryCount)*time.Second:
		return fmt.Errorf("transaction timeout %v: not more than the retry count %d in seconds: %w",
			p.TransactionTimeout, p.RetryCount, ErrInvalid)
	case p.TransactionTimeout > longest:
		return fmt.Errorf("transaction timeout %v: more than %v: %w", p.TransactionTimeout, longest, ErrInvalid)
	case p.HealthSensitivity < 0 || p.HealthSensitivity > MaxHealth:
		return fmt.Errorf("health sensitivity %d: not within 0 to %d: %w", p.HealthSensitivity, MaxHealth, ErrInvalid)
	case p.HealthSensitivity == 0 && p.RetryCount > 0:
		return fmt.Errorf("retry count %d: must be 0 while the health sensitivity is: %w", p.RetryCount, ErrInvalid)
	case p.ResponseTracking > TrackAll:
		return fmt.Errorf("response tracking %d: not within 0 to 3: %w", p.ResponseTracking, ErrInvalid)
	case p.RecoveryLimit < 0 || p.RecoveryLimit > longest:
		return fmt.Errorf("recovery limit %v: not within 0 to %v: %w", p.RecoveryLimit, longest, ErrInvalid)
	case p.MaxRecoveryPingInterval < time.Second || p.MaxRecoveryPingInterval > longest:
		return fmt.Errorf("max recovery ping interval %v: not within 1s to %v: %w",
			p.MaxRecoveryPingInterval, longest, ErrInvalid)
	case p.Discovery > discovery.Static:
		return fmt.Errorf("discovery mode %d: %w", p.Discovery, ErrInvalid)
	case p.RouterCheckInterval < 0 || p.RouterCheckInterval > longest:
		return fmt.Errorf("router check interval %v: not within 0 to %v: %w", p.RouterCheckInterval, longest, ErrInvalid)
	case p.RouterPingTimeout < 0 || p.RouterPingTimeout > longest:
		return fmt.Errorf("router ping timeout %v: not within 0 to %v: %w", p.RouterPingTimeout, longest, ErrInvalid)
	case p.PeerBufferCredits < 0:
		return fmt.Errorf("peer buffer credits %d: %w", p.PeerBufferCredits, ErrInvalid)
	}
	return nil
}

// lifetime is how long after its commit a message may leave by an NI, in ns
// (lnet-core 2.3).
func (p *Parameters) lifetime(lndTimeout time.Duration) int64 {
	attempts := time.Duration(p.RetryCount) + 1
	switch {
	case lndTimeout <= 0:
		return int64(p.TransactionTimeout)
	case lndTimeout > longest/attempts:
		return int64(longest)
	}
	return int64(lndTimeout*attempts + time.Second)
}

// scanInterval is how often, in seconds, overdue responses are looked for: one is
// found within a quarter of the transaction timeout after it was due. Kernels take
// up to a half (lnet-core 12.2).
func (p *Parameters) scanInterval() int64 {
	return max(int64(p.TransactionTimeout/time.Second)/4, 1)
}

// tracks says whether the response to a request of type t is watched.
func (p *Parameters) tracks(t lnet.MsgType) bool {
	if t == lnet.MsgPut {
		return p.ResponseTracking&TrackPuts != 0
	}
	return p.ResponseTracking&TrackGets != 0
}

// Parameters are those in force.
func (n *Node) Parameters() Parameters { return *n.made().parameters.Load() }

// SetParameters puts p in force, for what begins from now on. ErrInvalid if
// fields of it contradict each other. A sensitivity that becomes 0 takes the
// retry count with it. When discovery is turned off every multi-rail peer is told
// so first.
func (n *Node) SetParameters(p Parameters) error {
	if err := n.exists(); err != nil {
		return fmt.Errorf("set parameters: %w", err)
	}
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	old := n.parameters.Load()
	if p.HealthSensitivity == 0 && old.HealthSensitivity > 0 {
		p.RetryCount = 0
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("set parameters: %w", err)
	}
	p.normalize()
	n.parameters.Store(&p)
	n.topology.Store(n.topology.Load().under(&p))
	if p.Discovery != old.Discovery {
		n.postInfo()
		n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.SetMode(now, p.Discovery) })
	}
	return nil
}
