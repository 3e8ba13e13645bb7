package clients

import "github.com/lnetd/lnetd/transport"

// passiveBits checks the match bits that a client gives to passive buffers of a TM. They must follow the
// ones in the reply to TM_START. This prevents a client from using the match bits of a descriptor that
// was sent by another program whose TM had the same number (transport 6.4). The round lock guards it.
type passiveBits struct {
	// first is the counter in the reply to TM_START. If it is 0, the client has not negotiated the
	// feature, and any counter is permitted.
	first uint64
	// window is how far a counter may be beyond first.
	window uint64
}

// Operations may be submitted in another order than their counters, and a counter is lost if its
// operation is not submitted. So the reach starts with firstWindow and grows by windowPerOperation with each
// operation. A program that wants one particular counter would need 2^46 operations for it.
const (
	firstWindow        = 1 << 16
	windowPerOperation = 64
)

func passiveBitsFrom(first transport.MatchBits) passiveBits {
	return passiveBits{first: first.Counter(), window: firstWindow}
}

// permit reports whether a passive buffer may use m. If so, it extends the reach.
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
