package fabric

import (
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Config says what a fabric is like. The zero value is perfect: no latency, no faults.
type Config struct {
	// Seed decides every delay and random fault.
	Seed uint64
	// Link is what lies between any two ports for which SetLink has not said
	// otherwise.
	Link Link
	// Device is what the devices can do; a zero field means what soft-RoCE can, or 1 MTU
	// of 4096. MaxMemory bounds what a process may have registered in all, of each
	// device: verbs.ErrLocked.
	Device verbs.DeviceAttr
	// AckTimeout is how long a sender waits for an acknowledgement before it sends
	// again (o2iblnd 11); 0 means 2.147 s, as connection managers choose it.
	AckTimeout time.Duration
	// Recycler, if it is not nil, is where devices take memory from, and leave it.
	Recycler *Recycler
}

// Link is the nature of the way from one port to another.
type Link struct {
	// Latency is the one-way delay; a random part of Jitter is added to each message.
	// The order within a connection is kept.
	Latency, Jitter time.Duration
	// Loss is the probability, 0 to 1, that a message of a queue pair is lost and sent
	// again after AckTimeout; with the last of its retries the connection fails.
	Loss float64
	// CMLoss is the probability that a message of the connection manager is lost. It
	// repeats requests and answers to them after 4.3 s, others not.
	CMLoss float64
	// Break is the probability, for each message, that its connection is lost with it.
	Break float64
	// RNR is the probability that a SEND finds no receive, and waits as if none was posted.
	RNR float64
	// Fail is the probability that a request fails at the peer's device
	// (verbs.RemoteOperation), and both queue pairs with it.
	Fail float64
	// Stale is the probability that a connection request is rejected as one of a
	// connection that is still known (verbs.RejectStale).
	Stale float64
}

// How hardware and the connection manager behave (o2iblnd 3.2, 3.4, 11).
const (
	defaultAckTimeout = 4096 << 19 * time.Nanosecond
	rnrTimer          = 655360 * time.Microsecond
	rnrForever        = 7
	cmTimeout         = 4096 << 20 * time.Nanosecond
	cmRetries         = 15
	privilegedPorts   = 1024
	firstFreePort     = 32768
)

// softDevice is what soft-RoCE devices have.
var softDevice = verbs.DeviceAttr{
	MaxQP: 1 << 20, MaxWR: 1 << 20, MaxPieces: 32, MaxCQ: 1 << 20, MaxCQE: 32767, MaxMR: 1 << 19, MaxMemory: 1 << 62, Vectors: 1,
}

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
