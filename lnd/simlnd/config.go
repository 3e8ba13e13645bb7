package simlnd

import "time"

// Config says what a fabric is like. The zero value is a perfect network: no
// latency, no limit of bandwidth, no faults.
type Config struct {
	// Seed decides every delay and random fault.
	Seed uint64
	// Link is what lies between any two hosts for which SetLink has not said
	// otherwise.
	Link Link
	// SendBuffer and ReceiveBuffer bound, per direction of a stream, the bytes
	// that the peer has not acknowledged and those that it has not read; 0
	// means 64 KiB each. Socket options (Stream.Configure) override them.
	SendBuffer    int
	ReceiveBuffer int
	// CutChance is the probability, 0 to 1, that a direction of a new stream
	// resets the stream at a random byte below CutWithin.
	CutChance float64
	CutWithin int64
}

// Link is the nature of the way from one host to another.
type Link struct {
	// Latency is the one-way delay; to each write a random part of Jitter is
	// added. Order within a stream is kept.
	Latency, Jitter time.Duration
	// Bandwidth is in bytes per second, for each stream alone; 0 is without
	// limit.
	Bandwidth int64
	// Loss is the probability, 0 to 1, that a write or a connection request
	// is lost and comes later by a retransmission.
	Loss float64
}

const defaultBuffer = 64 << 10

// How TCP behaves on a way that loses everything. The numbers are Linux's.
const (
	// retransmitFirst doubles with each retransmission up to retransmitMax;
	// retransmitLimit after the first the stream is given up.
	retransmitFirst = 200 * time.Millisecond
	retransmitMax   = 120 * time.Second
	retransmitLimit = 924 * time.Second
	// synFirst doubles with each repeated connection request; after synLimit
	// the attempt is given up.
	synFirst = time.Second
	synLimit = 127 * time.Second
	// neighbourLimit is how long an address is looked for that nobody has.
	neighbourLimit = 3 * time.Second
)

// nextTry returns the first moment not before now in a series of tries that
// began at start and doubles its interval from first to most.
func nextTry(start, now, first, most time.Duration) time.Duration {
	t, step := start+first, first
	for t < now {
		step = min(2*step, most)
		t += step
	}
	return t
}
