package limit

import (
	"net/netip"
	"testing"
	"time"
)

// Given addresses that claim NIDs, when one claims too many, then it must wait,
// others need not, and any number of addresses takes bounded memory.
func TestClaimsAreBounded(t *testing.T) {
	c := Claims{Rate: ClaimRate}
	now := time.Now()
	address := func(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(k >> 8), byte(k)}) }
	taken := func(from, tries int) (n int) {
		for range tries {
			if c.Allow(address(from), now) {
				n++
			}
		}
		return n
	}
	if n := taken(1, 2*ClaimRate.Burst); n != ClaimRate.Burst {
		t.Errorf("%d claims, want %d", n, ClaimRate.Burst)
	}
	if n := taken(2, 10); n != 10 {
		t.Errorf("another address made %d claims, want 10", n)
	}
	now = now.Add(time.Second)
	if n := taken(1, ClaimRate.Burst); n != int(time.Second/ClaimRate.Every) {
		t.Errorf("%d claims within a second, want %d", n, time.Second/ClaimRate.Every)
	}
	for k := range 10 * MaxClaimants {
		taken(k, 1)
	}
	if len(c.meters) > MaxClaimants {
		t.Errorf("%d addresses are remembered, want %d at most", len(c.meters), MaxClaimants)
	}
	now = now.Add(time.Minute)
	if n := taken(9*MaxClaimants, 10); n != 10 || len(c.meters) != 1 {
		t.Errorf("a minute later %d claims, %d addresses", n, len(c.meters))
	}
}
