package node

import (
	"fmt"
	"math"
	"time"

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
}

// DefaultParameters are those of a kernel node.
func DefaultParameters() Parameters {
	return Parameters{
		TransactionTimeout:      150 * time.Second,
		RetryCount:              2,
		HealthSensitivity:       100,
		ResponseTracking:        TrackAll,
		MaxRecoveryPingInterval: 900 * time.Second,
	}
}

// LNDTimeout is the LND timeout that follows from p: that of drivers which are
// told none of their own.
func (p *Parameters) LNDTimeout() time.Duration {
	return max((p.TransactionTimeout-time.Second)/time.Duration(p.RetryCount+1), time.Second).Truncate(time.Second)
}

// longest bounds every time, so that none overflows: as many seconds as a
// kernel's parameter can say.
const longest = math.MaxInt32 * time.Second

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

// tracks says whether the response to a request of type t is watched.
func (p *Parameters) tracks(t lnet.MsgType) bool {
	if t == lnet.MsgPut {
		return p.ResponseTracking&TrackPuts != 0
	}
	return p.ResponseTracking&TrackGets != 0
}

// Parameters are those in force.
func (n *Node) Parameters() Parameters { return *n.parameters.Load() }

// SetParameters puts p in force, for what begins from now on. ErrInvalid if
// fields of it contradict each other. A sensitivity that becomes 0 takes the
// retry count with it.
func (n *Node) SetParameters(p Parameters) error {
	if old := n.parameters.Load(); p.HealthSensitivity == 0 && old.HealthSensitivity > 0 {
		p.RetryCount = 0
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("set parameters: %w", err)
	}
	n.parameters.Store(&p)
	return nil
}
