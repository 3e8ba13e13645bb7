package socklnd

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Given addresses that claim NIDs, when one claims too many, then it must wait,
// others need not, and any number of addresses takes bounded memory.
func TestClaimsAreBounded(t *testing.T) {
	c := claims{rate: claimRate}
	now := time.Now()
	address := func(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(k >> 8), byte(k)}) }
	taken := func(from, tries int) (n int) {
		for range tries {
			if c.take(address(from), now) {
				n++
			}
		}
		return n
	}
	if n := taken(1, 2*claimRate.Burst); n != claimRate.Burst {
		t.Errorf("%d claims, want %d", n, claimRate.Burst)
	}
	if n := taken(2, 10); n != 10 {
		t.Errorf("another address made %d claims, want 10", n)
	}
	now = now.Add(time.Second)
	if n := taken(1, claimRate.Burst); n != int(time.Second/claimRate.Every) {
		t.Errorf("%d claims within a second, want %d", n, time.Second/claimRate.Every)
	}
	for k := range 10 * claimants {
		taken(k, 1)
	}
	if len(c.meters) > claimants {
		t.Errorf("%d addresses are remembered, want %d at most", len(c.meters), claimants)
	}
	now = now.Add(time.Minute)
	if n := taken(9*claimants, 10); n != 10 || len(c.meters) != 1 {
		t.Errorf("a minute later %d claims, %d addresses", n, len(c.meters))
	}
}

// Given a caller that comes by one NID after the other from one address, when that
// are too many, then it is refused, and who calls by a NID of its own is not.
func TestACallerWithManyNIDs(t *testing.T) {
	n := start(t, nil)
	n.mu.Lock()
	n.claims.rate = lnd.Rate{Every: time.Hour, Burst: 3}
	n.mu.Unlock()
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
	evil.connect(protocol.Control) // by its own
}
