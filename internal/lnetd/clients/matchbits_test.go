package clients

import (
	"testing"

	"github.com/lnetd/lnetd/transport"
)

// Match bits may come in any order, with gaps, and wrap around. Match bits that are far from the previous
// ones belong to another program and are rejected.
func TestPassiveBits(t *testing.T) {
	const last = transport.MaxCounter
	bits := func(counter uint64) transport.MatchBits { return transport.MakeMatchBits(7, counter) }
	p := passiveBitsFrom(bits(last - 2))
	for _, tt := range []struct {
		counter uint64
		permit  bool
	}{
		{last - 1, true}, {last, true}, {2, true}, {1, true}, {firstWindow, true}, {0, false},
		{last - 3, false}, {last - firstWindow, false}, {1 << 40, false},
		{firstWindow + 5*windowPerOperation - 3, true}, {firstWindow + 7*windowPerOperation, false},
	} {
		if got := p.permit(bits(tt.counter)); got != tt.permit {
			t.Errorf("%d: %v", tt.counter, got)
		}
	}
	var unbound passiveBits
	if !unbound.permit(bits(1)) || !unbound.permit(bits(last)) || unbound.permit(bits(0)) {
		t.Error("a client without the feature has a bound")
	}
}
