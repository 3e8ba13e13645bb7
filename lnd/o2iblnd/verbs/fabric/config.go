package fabric

import (
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Config is the configuration of a fabric. The zero value has no latency and no faults.
type Config struct {
	// Seed determines every delay and random fault.
	Seed uint64
	// Link is the default link between two ports. SetLink overrides it.
	Link Link
	// Device is the capabilities of the devices. A field that is zero selects the value of soft-RoCE, and 4096
	// for the MTU. A process can register at most MaxMemory bytes on each device; further calls return
	// verbs.ErrLocked.
	Device verbs.DeviceAttr
	// AckTimeout is how long a sender waits for an acknowledgement before it retransmits (o2iblnd 11). 0 means
	// 2.147 s, the value that connection managers choose.
	AckTimeout time.Duration
	// Report, if not nil, is called for each forbidden access to memory (Faults.Protection). The error names
	// the host, the device, the memory and the reason. The fabric's lock is held, so Report must not call the
	// fabric.
	Report func(error)
	// Recycler, if not nil, provides the memory for Alloc and gets it back.
	Recycler *Recycler
}

// Link is the properties of the link from one port to another. Probabilities are from 0 to 1.
type Link struct {
	// Latency is the one-way delay. A random part of Jitter is added for each message. The order within a
	// connection is kept.
	Latency, Jitter time.Duration
	// Loss is the probability that a message of a queue pair is lost. It is retransmitted after AckTimeout.
	// After the last retry the connection fails.
	Loss float64
	// CMLoss is the probability that a message of the CM (connection manager) is lost. The CM retransmits
	// requests, and answers to requests, after 4.3 s. It does not retransmit other messages.
	CMLoss float64
	// Break is the probability, for each message, that the message is lost and its connection fails.
	Break float64
	// RNR is the probability that a SEND is treated as if the peer had posted no receive ("receiver not
	// ready").
	RNR float64
	// Fail is the probability that a request fails at the peer's device (verbs.RemoteOperation). Both queue
	// pairs then fail.
	Fail float64
	// Stale is the probability that a connection request is rejected because the peer's CM still has an old
	// connection (verbs.RejectStale).
	Stale float64
}

// Behaviour of hardware and of the connection manager (o2iblnd 3.2, 3.4, 11).
const (
	defaultAckTimeout = 4096 << 19 * time.Nanosecond
	rnrTimer          = 655360 * time.Microsecond
	rnrForever        = 7
	cmTimeout         = 4096 << 20 * time.Nanosecond
	cmRetries         = 15
	privilegedPorts   = 1024
	firstFreePort     = 32768
)

// softDevice is the capabilities of soft-RoCE devices.
var softDevice = verbs.DeviceAttr{
	MaxQP: 1 << 20, MaxWR: 1 << 20, MaxPieces: 32, MaxCQ: 1 << 20, MaxCQE: 32767, MaxMR: 1 << 19, MaxMemory: 1 << 62, Vectors: 1,
}

// complete fills in defaults.
func (c *Config) complete() {
	if c.AckTimeout == 0 {
		c.AckTimeout = defaultAckTimeout
	}
	d, s := &c.Device, &softDevice
	for _, p := range []struct{ have, want *int }{
		{&d.MaxQP, &s.MaxQP}, {&d.MaxWR, &s.MaxWR}, {&d.MaxPieces, &s.MaxPieces}, {&d.MaxCQ, &s.MaxCQ},
		{&d.MaxCQE, &s.MaxCQE}, {&d.MaxMR, &s.MaxMR}, {&d.Vectors, &s.Vectors},
	} {
		if *p.have == 0 {
			*p.have = *p.want
		}
	}
	if d.MaxMemory == 0 {
		d.MaxMemory = s.MaxMemory
	}
}
