package config

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// An entry of the module parameter may select an interface that its patterns do not match. The
// message names it, and the interface that they match.
//
// lnetctl 11 (11)
func TestMismatches(t *testing.T) {
	machine := []Interface{
		{Name: "lo", Up: true, Loopback: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		{Name: "eth0", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("192.184.182.3")}},
		{Name: "eth1", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("192.168.184.7")}},
	}
	for _, tt := range []struct {
		rules string
		want  []string
	}{
		{"tcp1(eth0) 192.168.184.*", []string{`tcp1(eth0) has no address that matches the patterns of "tcp1(eth0) 192.168.184.*"; eth1 has 192.168.184.7`}},
		{"tcp1 192.168.184.*", []string{`tcp1(eth0) has no address that matches the patterns of "tcp1 192.168.184.*"; eth1 has 192.168.184.7`}},
		{"tcp1(eth1) 192.168.184.*", nil},
		{"tcp1 192.184.*.*", nil},
		{"tcp1(eth0) 10.*.*.*", nil}, // it is for other hosts
		{"tcp1(eth0,eth1) 192.*.*.*", nil},
	} {
		rules, err := lnet.ParseIP2Nets(tt.rules)
		if err != nil {
			t.Fatal(err)
		}
		site := Site{IP2Nets: rules}
		if diff := cmp.Diff(tt.want, site.Mismatches(machine)); diff != "" {
			t.Errorf("%s: %s", tt.rules, diff)
		}
	}
}
