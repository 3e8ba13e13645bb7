package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/lnet"
)

// The net types of the section have their names in the rest of the document, wherever the section is. Names last
// as long as the process, so each test has its own.
func TestProxiesSection(t *testing.T) {
	c := mustParse(t, `
net:
    - net type: fabric
      local NI(s):
        - interfaces: {0: eth0, 1: eth1}
          proxy: a name
        - nid: 10.0.0.1@fabric
    - net type: ring7
      nid: 5@ring7
      proxy: other
route: [{net: ring8, gateway: 6@ring7}]
lnetd:
    proxies:
        socket: /x/p.sock
        group: root
        net_types:
            - {name: fabric, number: 0xd3}
            - {name: ring, number: 212, addresses: number}
        rules:
            - name: cluster
              users: [root, 1000]
              groups: [7]
              nets: [fabric, ring3]
              proxies: 4
              memory: 8
            - name: others
`)
	want := Proxies{
		Socket: "/x/p.sock", NetTypes: []lnet.NamedType{{Type: 211, Name: "fabric", IP: true}, {Type: 212, Name: "ring"}},
		Rules: proxies.Rules{
			{
				Name: "cluster", UIDs: []uint32{0, 1000}, GIDs: []uint32{7}, Proxies: 4, AreaSize: 8 << 20,
				Nets: []lnet.Net{lnet.MakeNet(211, 0), lnet.MakeNet(212, 3)},
			},
			{Name: "others"},
		},
	}
	if diff := cmp.Diff(want, c.Proxies); diff != "" {
		t.Error(diff)
	}
	var names []string
	for k := range c.NIs {
		names = append(names, c.NIs[k].String()+" "+c.NIs[k].Proxy)
	}
	if want := []string{"fabric(eth0) a name", "fabric(eth1) a name", "10.0.0.1@fabric ", "5@ring7 other"}; !slices.Equal(names, want) {
		t.Errorf("NIs %q, want %q", names, want)
	}
	if len(c.Routes) != 1 || c.Routes[0].Net != lnet.MakeNet(212, 8) {
		t.Errorf("routes %v", c.Routes)
	}
	if command := (Change[NI]{To: &c.NIs[0]}).Commands(); !slices.Equal(command, []string{"net add --net fabric --if eth0 --proxy 'a name'"}) {
		t.Errorf("commands %q", command)
	}
}

func TestProxiesErrors(t *testing.T) {
	const types = "lnetd:\n  proxies:\n    net_types:\n      - "
	const at = "f:4: lnetd.proxies.net_types[0]"
	const rules = "lnetd:\n  proxies:\n    rules:\n      - "
	testErrors(t, []errorTest{
		{"key unknown", "lnetd: {proxies: {nets: 1}}\n", []string{"f:1: lnetd.proxies.nets: invalid key 'nets'"}},
		{"no number", types + "{name: nonumber}\n", []string{at + `: the key "number" is missing`}},
		{"no name", types + "{number: 213}\n", []string{at + `: the key "name" is missing`}},
		{"number too large", types + "{name: toolarge, number: 255}\n", []string{at + ".number: 255 is not in 1 to 254"}},
		{"addresses", types + "{name: addresses, number: 213, addresses: mac}\n", []string{at + `.addresses: "mac" is not one of ip, number`}},
		{"no net type", types + "{name: Upper, number: 213}\n", []string{at + `: net type 213: name "Upper": net type cannot have this name`}},
		{"a driver", types + "{name: mytcp, number: 2}\n", []string{at + ": lnetd has its own driver for tcp nets"}},
		{"loopback", types + "{name: lo, number: 9}\n", []string{at + ": lnetd has its own driver for lo nets"}},
		{"twice", types + "{name: twice, number: 214}\n      - {name: twice, number: 214}\n", []string{`f:5: lnetd.proxies.net_types[1]: the net type "twice" occurs twice`}},
		{"memory", rules + "{name: a, memory: 3}\n", []string{"f:4: lnetd.proxies.rules[0].memory: 3 is not an even number of MiB"}},
		{"net of a rule", rules + "{name: a, nets: [nowhere]}\n", []string{"f:4: lnetd.proxies.rules[0].nets[0]: "}},
		{"rule twice", rules + "name: a\n      - name: a\n", []string{`f:5: lnetd.proxies.rules[1]: the rule "a" already exists`}},
		{"proxy of a driver", "net: [{net type: tcp, interfaces: {0: eth0}, proxy: x}]\n", []string{"f:1: net[0].proxy: tcp nets are not served by proxies"}},
		{"empty proxy", types + "{name: empty, number: 215}\nnet: [{net type: empty, nid: 1.2.3.4@empty, proxy: ''}]\n", []string{"f:5: net[0].proxy: the name is empty"}},
		{"proxy not ASCII", types + "{name: ascii, number: 216}\nnet: [{net type: ascii, nid: 1.2.3.4@ascii, proxy: ä}]\n", []string{`f:5: net[0].proxy: "ä" is not a name of 1 to 31 printable`}},
	})
}
