package node

import (
	"fmt"
	"math"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// ResponseTracking selects the types of requests whose responses are tracked, so that a
// missing response is detected (lnet-core 6.4). An MD can request tracking for itself.
type ResponseTracking uint8

// The values are those of lnet_response_tracking.
const (
	TrackNone ResponseTracking = iota
	TrackGets
	TrackPuts
	TrackAll
)

// MaxHealth is the health of an NI or a peer NI without recent failures (discovery 9.1).
const MaxHealth = 1000

// Parameters are settings that can be changed while a node runs (lnet-core 6.5, 13).
type Parameters struct {
	// TransactionTimeout is the time limit for a response. It must exceed RetryCount seconds.
	TransactionTimeout time.Duration
	// RetryCount is the maximum number of resends of a message. It must be 0 if
	// HealthSensitivity is 0.
	RetryCount int
	// HealthSensitivity is how much health an NI or a peer NI loses with each failure, 0 to
	// 1000. If it is 0, health does not change.
	HealthSensitivity int
	// ResponseTracking selects the requests whose responses are tracked.
	ResponseTracking ResponseTracking
	// RecoveryLimit is how long a peer NI from which no messages arrive is pinged for
	// recovery. Zero means no limit.
	RecoveryLimit time.Duration
	// MaxRecoveryPingInterval is the longest pause between two recovery pings, at least one
	// second.
	MaxRecoveryPingInterval time.Duration

	// Discovery specifies how the node uses the information that peers send about themselves.
	Discovery discovery.Mode
	// InterfacesMax limits the number of NIs, and the number of accepted entries in ping
	// info, both including 0@lo. Values below 16 mean 4096.
	InterfacesMax int
	// PeerNIsMax limits the number of NIDs of peers that are not configured. Values below 16
	// mean 65,536.
	PeerNIsMax int
	// NUMARange is the NUMA distance up to which all NIs are considered equally near.
	NUMARange uint32

	// RouterCheckInterval is the interval at which each net of a gateway is checked. If it is
	// 0, gateways are not checked, but discovered when a message first uses them.
	RouterCheckInterval time.Duration
	// RouterPingTimeout is how long a router waits for pings beyond RouterCheckInterval: if
	// no ping has arrived on a net for the sum of both, the router marks its NIs on that net
	// as down.
	RouterPingTimeout time.Duration
	// DropAsymRoute makes the node drop a message that arrives through a router if no route
	// leads back through that router.
	DropAsymRoute bool
	// AsymmetricRoutes keeps a single-hop route in use although its gateway reports that its
	// NI on the remote net is down (avoid_asym_router_failure is 0).
	AsymmetricRoutes bool
	// CheckRoutersBeforeUse marks new routes and their gateways as down until the first check
	// of the gateway has succeeded.
	CheckRoutersBeforeUse bool
	// IgnorePeerDown ignores the reports of drivers that a peer is lost (auto_down is 0).
	IgnorePeerDown bool
	// PeerBufferCredits is the number of router buffers that each neighbour may hold. A net's
	// own tunable takes precedence. Zero means the number of peer credits.
	PeerBufferCredits int
}

// DefaultParameters returns the defaults of a kernel node.
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

// LNDTimeout returns the LND timeout that follows from p. All drivers without a timeout of
// their own use it, and running drivers follow its changes.
func (p *Parameters) LNDTimeout() time.Duration {
	return max((p.TransactionTimeout-time.Second)/time.Duration(p.RetryCount+1), time.Second).Truncate(time.Second)
}

// longest is the upper limit of all durations, which avoids overflows. It is the largest
// number of seconds that a kernel parameter can hold.
const longest = math.MaxInt32 * time.Second

// normalize replaces allowed values that stand for a default with that default.
func (p *Parameters) normalize() {
	if p.InterfacesMax < lnet.InterfacesMin { // as kernels do
		p.InterfacesMax = lnet.InterfacesMax
	}
	if p.PeerNIsMax < PeerNIsMin {
		p.PeerNIsMax = PeerNIsMax
	}
}

// check returns ErrInvalid if p is invalid.
func (p *Parameters) check() error {
	switch {
	case p.RetryCount < 0:
		return fmt.Errorf("retry count %d: negative: %w", p.RetryCount, ErrInvalid)
	case p.TransactionTimeout <= time.Duration(p.RetryCount)*time.Second:
		return fmt.Errorf("transaction timeout %v: must be more than a second for each of %d retries: %w",
			p.TransactionTimeout, p.RetryCount, ErrInvalid)
	case p.TransactionTimeout > longest:
		return fmt.Errorf("transaction timeout %v: more than %v: %w", p.TransactionTimeout, longest, ErrInvalid)
	case p.HealthSensitivity < 0 || p.HealthSensitivity > MaxHealth:
		return fmt.Errorf("health sensitivity %d: not within 0 to %d: %w", p.HealthSensitivity, MaxHealth, ErrInvalid)
	case p.HealthSensitivity == 0 && p.RetryCount > 0:
		return fmt.Errorf("retry count %d: must be 0 if the health sensitivity is 0: %w", p.RetryCount, ErrInvalid)
	case p.ResponseTracking > TrackAll:
		return fmt.Errorf("response tracking %d: not within 0 to 3: %w", p.ResponseTracking, ErrInvalid)
	case p.RecoveryLimit < 0 || p.RecoveryLimit > longest:
		return fmt.Errorf("recovery limit %v: not within 0 to %v: %w", p.RecoveryLimit, longest, ErrInvalid)
	case p.MaxRecoveryPingInterval < time.Second || p.MaxRecoveryPingInterval > longest:
		return fmt.Errorf("max recovery ping interval %v: not within 1s to %v: %w",
			p.MaxRecoveryPingInterval, longest, ErrInvalid)
	case p.Discovery > discovery.Static:
		return fmt.Errorf("discovery mode %d: unknown: %w", p.Discovery, ErrInvalid)
	case p.RouterCheckInterval < 0 || p.RouterCheckInterval > longest:
		return fmt.Errorf("router check interval %v: not within 0 to %v: %w", p.RouterCheckInterval, longest, ErrInvalid)
	case p.RouterPingTimeout < 0 || p.RouterPingTimeout > longest:
		return fmt.Errorf("router ping timeout %v: not within 0 to %v: %w", p.RouterPingTimeout, longest, ErrInvalid)
	case p.PeerBufferCredits < 0:
		return fmt.Errorf("peer buffer credits %d: negative: %w", p.PeerBufferCredits, ErrInvalid)
	}
	return nil
}

// lifetime returns the time within which a message must be sent, in nanoseconds, counted
// from the choice of its NI (lnet-core 2.3). lndTimeout is that of the NI.
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

// scanInterval returns the interval between searches for overdue responses, in seconds. An
// overdue response is therefore detected at most a quarter of the transaction timeout
// late. Kernels take up to a half (lnet-core 12.2).
func (p *Parameters) scanInterval() int64 {
	return max(int64(p.TransactionTimeout/time.Second)/4, 1)
}

// tracks reports whether p requires that responses to requests of type t are tracked.
func (p *Parameters) tracks(t lnet.MsgType) bool {
	if t == lnet.MsgPut {
		return p.ResponseTracking&TrackPuts != 0
	}
	return p.ResponseTracking&TrackGets != 0
}

// Parameters returns the current parameters.
func (a *Admin) Parameters() Parameters {
	if !a.n.isMade() {
		return Parameters{}
	}
	return *a.n.parameters.Load()
}

// SetParameters sets the parameters. They apply to everything that begins after the call.
// It returns ErrInvalid if p is invalid. If HealthSensitivity changes to 0, RetryCount is
// set to 0 as well. If discovery is turned off, all multi-rail peers are notified first.
func (a *Admin) SetParameters(p Parameters) error {
	n := a.n
	if err := n.checkMade(); err != nil {
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
	n.topology.Store(n.topology.Load().withParameters(&p))
	if p.Discovery != old.Discovery {
		n.postInfo()
		n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.SetMode(now, p.Discovery) })
	}
	return nil
}
