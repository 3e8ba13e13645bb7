package clients

import "github.com/lnetd/lnetd/transport"

// passiveBits checks the match bits that a client sets for passive buffers of a TM. Their counter must
// follow the one in the reply to TM_START. This prevents a client from using the match bits in a
// descriptor of another program that had a TM with the same number before (transport 6.4). tm.roundMu
// guards it.
type passiveBits struct {
	// first is the counter of the match bits in the reply to TM_START. If it is 0, the client has not
	// negotiated this feature, and any counter except 0 is permitted.
	first uint64
	// window is the maximum difference between a permitted counter and first.
	window uint64
}

// The window starts with firstWindow and grows by windowPerOperation with each operation. It is larger than
// the number of operations, because operations may be submitted in another order than their counters, and
// counters are skipped if their operation is not submitted. To reach one particular counter, a client
// would still need 2^46 operations.
const (
	firstWindow        = 1 << 16
	windowPerOperation = 64
)

func passiveBitsFrom(first transport.MatchBits) passiveBits {
	return passiveBits{first: first.Counter(), window: firstWindow}
}

// permit reports whether a passive buffer may use the match bits m. If so, it extends the window.
func (p *passiveBits) permit(m transport.MatchBits) bool {
	counter := m.Counter()
	if counter == 0 || p.first == 0 {
		return counter != 0
	}
	if (counter+transport.MaxCounter-p.first)%transport.MaxCounter > p.window {
		return false
	}
	p.window += windowPerOperation
	return true
}
