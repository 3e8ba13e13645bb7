package socklnd

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// TestACallerWithManyNIDs: given an address that claims one NID after the other, when there are too
// many, then further ones are refused. Calls with the NID of the caller's address are still
// accepted.
func TestACallerWithManyNIDs(t *testing.T) {
	n := start(t, nil)
	n.Locked(func() { n.Admission.Claims.Rate = limit.Rate{Every: time.Hour, Burst: 3} })
	evil, good := newPuppet(n), newPuppet(n)
	claim := func(k int) *wire {
		h := evil.hello(protocol.Control)
		h.Src = lnet.NIDFromNumber(tcp, uint32(0x0b000000+k))
		b, err := h.Append(evil.request(), binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		w := evil.dial()
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for k := range 10 {
		w := claim(k)
		if k < 3 {
			n.awaitCounter("accepts_total", uint64(k+1))
		} else {
			w.ends()
		}
	}
	if got := n.Refusals()[lnd.RefusedClaims]; got != 7 {
		t.Errorf("%d refused, want 7", got)
	}
	good.connect(protocol.Control)
	evil.connect(protocol.Control) // with the NID of its address
}
