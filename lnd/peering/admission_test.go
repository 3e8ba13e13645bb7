package peering

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
)

// refusedFor checks for which reason an error refuses a caller.
func refusedFor(t *testing.T, err error, want lnd.Refusal) {
	t.Helper()
	var refused *lnd.RefusedError
	if !errors.As(err, &refused) || refused.Reason != want {
		t.Errorf("%v, want a refusal for %s", err, want)
	}
}

// The connections of an address are limited. When one has ended, another one is admitted. Other
// addresses are not affected.
func TestConnectionsOfASource(t *testing.T) {
	a := NewAdmission(2)
	source, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	enter := func(from netip.Addr) error { return a.Enter(from, lnet.NIDFromIP(tcp, from), false, time.Time{}) }
	if err := errors.Join(enter(source), enter(source), enter(other)); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, enter(source), lnd.RefusedMany)
	a.Leave(source)
	if err := enter(source); err != nil {
		t.Error(err)
	}
	refusedFor(t, enter(source), lnd.RefusedMany)
	for _, from := range []netip.Addr{source, source, other} {
		a.Leave(from)
	}
	if len(a.conns) != 0 {
		t.Errorf("%v are left", a.conns)
	}
}

// Given a host that takes one address of its IPv6 network after the other, when it calls by each as if
// it were a node, then it must wait, whatever NIDs it uses. Other networks, and hosts of IPv4, need not.
func TestANetworkIsOneSource(t *testing.T) {
	a := NewAdmission(1)
	now := time.Now()
	calls := func(tries int, address func(k int) netip.Addr, nid func(netip.Addr) netip.Addr) (n int) {
		for k := range tries {
			from := address(k)
			err := a.Enter(from, lnet.NIDFromIP(tcp, nid(from)), false, now)
			if err == nil {
				n++
				a.Leave(from)
				continue
			}
			refusedFor(t, err, lnd.RefusedClaims)
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
	v4 := func(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(k >> 16), byte(k >> 8), byte(k)}) }
	one := func(int) netip.Addr { return netip.MustParseAddr("10.0.0.1") }
	for _, tt := range []struct {
		name        string
		tries, want int
		address     func(k int) netip.Addr
		nid         func(netip.Addr) netip.Addr
	}{
		{"hosts of a network", 2 * hostRate.Burst, hostRate.Burst, in(1), own},
		{"hosts of it with other NIDs", 2 * limit.ClaimRate.Burst, limit.ClaimRate.Burst, in(1), other},
		{"hosts of another network", 10000, 10000, in(2), own},
		{"hosts of IPv4", 100000, 100000, v4, own},
		{"an address with other NIDs", 2 * limit.ClaimRate.Burst, limit.ClaimRate.Burst, one, other},
	} {
		if n := calls(tt.tries, tt.address, tt.nid); n != tt.want {
			t.Errorf("%s: %d got in, want %d", tt.name, n, tt.want)
		}
	}
	now = now.Add(time.Second)
	if n := calls(hostRate.Burst, in(1), own); n != int(time.Second/hostRate.Every) {
		t.Errorf("%d callers within a second, want %d", n, time.Second/hostRate.Every)
	}
}

// A caller with the NID of a peer that exists creates none, and is not counted as one that does.
func TestAKnownPeerIsNoClaim(t *testing.T) {
	a := NewAdmission(10_000)
	from, nid := netip.MustParseAddr("10.0.0.1"), lnet.NIDFromIP(tcp, netip.MustParseAddr("10.0.0.9"))
	for range 2 * limit.ClaimRate.Burst {
		if err := a.Enter(from, nid, true, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}
