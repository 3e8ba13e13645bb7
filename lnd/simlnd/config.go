package simlnd

import "time"

// Config is the configuration of a fabric. The zero value is a perfect network: no latency, unlimited
// bandwidth, no faults.
type Config struct {
	// Seed determines every delay and random fault.
	Seed uint64
	// Link is the default link between two hosts. SetLink overrides it.
	Link Link
	// SendBuffer and ReceiveBuffer are the largest number of bytes, in one direction of a stream, that
	// the peer has not acknowledged and that it has not read. 0 means 64 KiB each. Socket options
	// (Stream.Configure) override them.
	SendBuffer    int
	ReceiveBuffer int
	// CutChance is the probability, 0 to 1, that a direction of a new stream resets the stream at a
	// random byte below CutWithin.
	CutChance float64
	CutWithin int64
}

// Link is the properties of the link from one host to another.
type Link struct {
	// Latency is the one-way delay. A random part of Jitter is added for each write. The order within a
	// stream is kept.
	Latency, Jitter time.Duration
	// Bandwidth is in bytes per second and applies to each stream separately. 0 means unlimited.
	Bandwidth int64
	// Loss is the probability, 0 to 1, that a write or a connection request is lost and arrives later by
	// retransmission.
	Loss float64
}

const defaultBuffer = 64 << 10

// Behaviour of TCP on a link that loses everything. The numbers are those of Linux.
const (
	// retransmitFirst is the first interval. It doubles with each retransmission up to retransmitMax. The
	// stream fails retransmitLimit after the first retransmission.
	retransmitFirst = 200 * time.Millisecond
	retransmitMax   = 120 * time.Second
	retransmitLimit = 924 * time.Second
	// synFirst is the first interval. It doubles with each repeated connection request. The attempt fails
	// after synLimit.
	synFirst = time.Second
	synLimit = 127 * time.Second
	// neighbourLimit is the time after which an address that no host has is unreachable.
	neighbourLimit = 3 * time.Second
)

// nextTry returns the first time, not before now, of a series of attempts that begins at start. The
// interval between them doubles from first to most.
func nextTry(start, now, first, most time.Duration) time.Duration {
	t, step := start+first, first
	for t < now {
		step = min(2*step, most)
		t += step
	}
	return t
}
