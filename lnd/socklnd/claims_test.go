package socklnd

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Given a host that takes one address of its IPv6 network after the other, when it
// calls by each as if it were a node, then it must wait, whatever it calls by; other
// networks, and hosts of IPv4, need not.
func TestANetworkIsOneSource(t *testing.T) {
	i := &Interface{claims: limit.Claims{Rate: limit.ClaimRate}, hosts: limit.Claims{Rate: hostRate}}
	now := time.Now()
	calls := func(tries int, address func(k int) netip.Addr, nid func(netip.Addr) netip.Addr) (n int) {
		for k := range tries {
			a := address(k)
			if i.admitNID(lnet.NIDFromIP(tcp, nid(a)), a, now) {
				n++
			}
		}
		return n
	}
	in := func(network byte) func(k int) netip.Addr {
		return func(k int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 7: network, 8: 1, 14: byte(k >> 8), 15: byte(k)})
		}
	}
	own := func(a netip.Addr) netip.Addr { return a }
	other := func(a netip.Addr) netip.Addr { return a.Next() }
	if n := calls(2*hostRate.Burst, in(1), own); n != hostRate.Burst {
		t.Errorf("%d callers of a network, want %d", n, hostRate.Burst)
	}
	if n := calls(2*limit.ClaimRate.Burst, in(1), other); n != limit.ClaimRate.Burst {
		t.Errorf("%d that claim NIDs, want %d", n, limit.ClaimRate.Burst)
	}
	if n := calls(10000, in(2), own); n != 10000 {
		t.Errorf("%d of 10000 nodes of another network", n)
	}
	v4 := func(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(k >> 16), byte(k >> 8), byte(k)}) }
	if n := calls(100000, v4, own); n != 100000 {
		t.Errorf("%d of 100000 nodes of IPv4", n)
	}
	now = now.Add(time.Second)
	if n := calls(hostRate.Burst, in(1), own); n != int(time.Second/hostRate.Every) {
		t.Errorf("%d callers within a second, want %d", n, time.Second/hostRate.Every)
	}
}

// Given a caller that comes by one NID after the other from one address, when that
// are too many, then it is refused, and who calls by a NID of its own is not.
func TestACallerWithManyNIDs(t *testing.T) {
	n := start(t, nil)
	n.mu.Lock()
	n.claims.Rate = limit.Rate{Every: time.Hour, Burst: 3}
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
