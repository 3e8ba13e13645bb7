package limit

import (
	"net/netip"
	"testing"
)

// Given the addresses of a host, when it has IPv6, then those of one network are one
// source: it has as many of them as it likes.
func TestSourceOf(t *testing.T) {
	for _, c := range []struct{ address, source string }{
		{"10.0.0.1", "10.0.0.1"},
		{"::ffff:10.0.0.1", "10.0.0.1"},
		{"2001:db8::1", "2001:db8::"},
		{"2001:db8:0:0:ffff:0:0:2", "2001:db8::"},
		{"2001:db8:0:1::1", "2001:db8:0:1::"},
		{"fe80::1%eth0", "fe80::"},
		{"::1", "::"},
	} {
		if s := SourceOf(netip.MustParseAddr(c.address)); s != netip.MustParseAddr(c.source) {
			t.Errorf("%s counts for %s, want %s", c.address, s, c.source)
		}
	}
	if s := SourceOf(netip.Addr{}); s.IsValid() {
		t.Errorf("no address counts for %s", s)
	}
}
