package simlnd

import "time"

// Config is the configuration of a fabric. The zero value is a perfect network: no latency, unlimited
// bandwidth, no faults.
type Config struct {
	// Seed determines every delay and random fault.
	Seed uint64
	// Link is the default link between two hosts. SetLink overrides it.
	Link Link
	// SendBuffer is the largest number of bytes, in one direction of a stream, that the peer has not
	// acknowledged. ReceiveBuffer is the largest number that have arrived and that the peer has not read. 0
	// means 64 KiB. Stream.Configure overrides them.
	SendBuffer    int
	ReceiveBuffer int
	// CutChance is the probability, 0 to 1, that a direction of a new stream is cut: the stream is reset at a
	// random byte, whose offset is below CutWithin.
	CutChance float64
	CutWithin int64
}

// Link is the properties of the link from one host to another.
type Link struct {
	// Latency is the one-way delay. A random part of Jitter is added for each write. The order within a
	// stream is kept.
	Latency, Jitter time.Duration
	// Bandwidth is the maximum rate of each stream, in bytes per second. 0 means unlimited.
	Bandwidth int64
	// Loss is the probability, 0 to 1, that a write or a connection request is lost. It then arrives later by
	// retransmission.
	Loss float64
}

const defaultBuffer = 64 << 10

// Behaviour of TCP while a link loses everything. The numbers are those of Linux.
const (
	// retransmitFirst is the time until the first retransmission. The interval doubles with each
	// retransmission, up to retransmitMax. A stream fails if retransmitLimit has passed without an
	// acknowledgement.
	retransmitFirst = 200 * time.Millisecond
	retransmitMax   = 120 * time.Second
	retransmitLimit = 924 * time.Second
	// synFirst is the time until a connection request is first repeated. The interval doubles with each
	// repetition. The attempt fails after synLimit.
	synFirst = time.Second
	synLimit = 127 * time.Second
	// neighbourLimit is the time after which an attempt to connect to an address that no host has fails as
	// unreachable.
	neighbourLimit = 3 * time.Second
)

// nextTry returns the time of the first attempt that is not before now, in a series that begins at start. The
// interval between attempts is first, and then doubles up to most.
func nextTry(start, now, first, most time.Duration) time.Duration {
	t, step := start+first, first
	for t < now {
		step = min(2*step, most)
		t += step
	}
	return t
}
