package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Numbers in brackets after a name are CPU partitions if the host has an interface of that name,
// or the name ends in a digit. Otherwise they select interfaces. This holds in all forms.
//
// lnetctl 11 (15)
func TestListedInterfaces(t *testing.T) {
	var machine []Interface
	for k, name := range []string{"lo", "eth10", "eth4", "eth3", "eth1", "lustre", "lustre1", "ib01", "ethx", "eth"} {
		addr := netip.AddrFrom4([4]byte{10, 0, byte(k % 2), byte(k + 1)})
		machine = append(machine, Interface{Name: name, Up: name != "eth4", Loopback: k == 0, Addrs: []netip.Addr{addr}})
	}
	without := machine[:len(machine)-1] // without eth itself
	for _, tt := range []struct {
		document string
		machine  []Interface
		want     string
	}{
		{"net: [{net: tcp, interfaces: {0: 'eth[1-4/2]'}}]", without, "eth1|eth3"},
		{"net: [{net: tcp, interfaces: {0: 'eth[1-4/2]'}}]", machine, "eth[1 3]"},
		{"net: [{net: tcp, interfaces: ['eth[10,1]', 'eth4[2]']}]", without, "eth1|eth10|eth4[2]"},
		{"net: [{net: tcp, interfaces: ['eth[*]'], CPT: 2}]", without, "eth1[2]|eth3[2]|eth4[2]|eth10[2]"},
		{"net: [{net: tcp, interfaces: [{intf: 'eth[1-4/2]', CPT: '1,3'}]}]", without, "eth1[1 3]|eth3[1 3]"},
		{"net: [{net: tcp, local NI(s): [{interfaces: {0: 'lustre[0,1]'}}]}]", without, "lustre[0 1]"},
		{"net: [{net: tcp, interfaces: ['eth[5-9]']}]", without, "eth[5 6 7 8 9]"}, // it waits, or is rejected
		{"net: [{net: tcp, interfaces: ['eth1[0-9]', 'ib[0-1]']}]", without, "eth1[0 1 2 3 4 5 6 7 8 9]|ib[0 1]"},
		{"net: [{net: tcp, intf: 'eth[1-4/2]', pattern: '10.0.0.*'}]", without, "eth1"},
		{"ip2nets: [{net-spec: tcp, interfaces: {0: 'eth[1-4]'}}]", without, "eth1|eth3"},
		{"ip2nets: [{net-spec: tcp, interfaces: {0: 'eth[1-4]'}, ip-range: {0: '10.0.1.*'}}]", without, "eth3"},
		{"ip2nets: [{net-spec: tcp, interfaces: {0: 'eth[1-4]', 1: lustre}, ip-range: {0: '10.0.*.*'}}]", without, "eth1|eth3|lustre"},
		{"ip2nets: [{net-spec: tcp, interfaces: {0: 'eth[7-9]', 1: lustre}}, {net-spec: tcp, interfaces: {0: 'lustre[1]'}}]", without, "lustre[1]"},
		{"ip2nets: [{net-spec: tcp, interfaces: {0: 'eth[1-4]'}}]", machine, "eth[1 2 3 4]"},
		{"lnetd: {networks: 'tcp(eth[1-4/2])'}", without, "eth1|eth3"},
		{"lnetd: {networks: 'tcp(eth[1-4/2],lustre1)[1]'}", without, "eth1[1]|eth3[1]|lustre1[1]"},
		{"lnetd: {networks: 'tcp(eth[1-4/2])'}", machine, "eth[1 3]"},
		{"lnetd: {ip2nets: 'tcp(eth[1-4/2]) 10.0.*.*'}", without, "eth1|eth3"},
	} {
		c := mustParse(t, tt.document)
		s, err := c.Settle(tt.machine)
		var got []string
		for k := range s.NIs {
			ni := &s.NIs[k]
			text := ni.Device
			if ni.CPTs != nil {
				text += fmt.Sprint(ni.CPTs)
			}
			got = append(got, text)
			if ni.Listed != nil {
				t.Errorf("%s: %s is open still", tt.document, text)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "|")); diff != "" || err != nil || !c.NeedsMachine() {
			t.Errorf("%s: %v, needs the machine: %v, -want +got:\n%s", tt.document, err, c.NeedsMachine(), diff)
		}
	}
	if c := mustParse(t, "net: [{net: tcp, interfaces: ['eth0[0,1]', eth1]}]"); c.NeedsMachine() {
		t.Error("a name that ends with a digit is looked for")
	}
	_, err := Parse("t.yaml", []byte("net: [{net: tcp, interfaces: [{intf: 'eth0[1]', CPT: 2}]}]"), nil)
	if err == nil || !strings.Contains(err.Error(), "occurs twice") {
		t.Errorf("two lists of CPU partitions: %v", err)
	}
}
