package clients

import "github.com/lnetd/lnetd/transport"

// passiveBits are the match bits that a client may give the passive buffers of a TM: those that
// follow the ones of the reply to TM_START. So a client cannot give a buffer those of a
// descriptor that another program has sent, whose TM had the same number (transport 6.4). The
// round lock guards it.
type passiveBits struct {
	// first is the counter of the reply; 0 permits any, to a client without the feature.
	first uint64
	// reach is how far beyond first a counter may be.
	reach uint64
}

// Operations may come in another order than their counters, and a counter is lost when an
// operation is not submitted. So the reach begins with reachFirst, and grows by reachMore with each
// operation: a program that wants a certain counter needs 2^46 operations for it.
const (
	reachFirst = 1 << 16
	reachMore  = 64
)

func passiveBitsFrom(first transport.MatchBits) passiveBits {
	return passiveBits{first: first.Counter(), reach: reachFirst}
}

// permit reports whether a passive buffer may have match bits, and counts it.
func (p *passiveBits) permit(m transport.MatchBits) bool {
	counter := m.Counter()
	if counter == 0 || p.first == 0 {
		return counter != 0
	}
	if (counter+transport.MaxCounter-p.first)%transport.MaxCounter > p.reach {
		return false
	}
	p.reach += reachMore
	return true
}
