package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// guests and ring are types of nets that proxies serve.
var (
	guests = lnet.NamedType{Type: 233, Name: "guests", IP: true}
	ring   = lnet.NamedType{Type: 234, Name: "ring"}
)

// startProxied is startNode for a configuration with nets that proxies serve. No proxy is attached.
func startProxied(t *testing.T, text string) (*nodeRun, *fakeNetwork) {
	t.Helper()
	h := host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"))
	server, err := uplnd.NewServer(uplnd.Config{Host: h})
	if err != nil {
		t.Fatal(err)
	}
	l, err := unixsocket.Listen("unixpacket", filepath.Join(testenv.SocketDir(t), "proxies.sock"), -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := parse(t, text+netTypes)
	r := startNodeWith(t, c, Drivers{TCP(h), proxied(guests, server, h), proxied(ring, server, h)})
	r.backend.proxies = &proxiesTask{server: server, listener: l}
	return r.ready(t), h
}

// netTypes names guests and ring in a configuration.
const netTypes = "\nlnetd: {proxies: {net_types: [{name: guests, number: 233}, {name: ring, number: 234, addresses: number}]}}"

// An NI without a proxy is listed with the reason, also if it waits for its interface or for an address that the
// configuration demands of the interface.
func TestUnservedNIs(t *testing.T) {
	r, _ := startProxied(t, `
net:
  - {net type: guests, nid: 192.0.2.7@guests}
  - {net type: guests1, interfaces: {0: eth0}, proxy: mpi}
  - {net type: guests2, interfaces: {0: eth9}}
  - {net type: guests3, interfaces: {0: eth1}, nid: 192.0.2.7@guests3}
  - {net type: ring, interfaces: {0: eth1}, nid: 7@ring}
`)
	var all api.Clients
	r.backend.addProxies(&all)
	var got []string
	for _, u := range all.Unserved {
		got = append(got, u.NI+": "+u.Reason)
	}
	for k, want := range []string{
		"192.0.2.7@guests: no proxy is attached",
		`10.77.0.11@guests1: no proxy with the name "mpi"`,
		"7@ring: no proxy",
		"guests2(eth9): it waits for its interface: ",
		"guests3(eth1): it waits for its interface: device eth1 has no address 192.0.2.7",
	} {
		if k >= len(got) || !strings.HasPrefix(got[k], want) {
			t.Errorf("%d: want %s, got %q", k, want, got)
		}
	}
}

// The name of proxies is valid with rules, whose nets are known only when they are resolved.
func TestProxiesOfRules(t *testing.T) {
	r, _ := startProxied(t, "net: [{net type: tcp, interfaces: {0: eth0}}]")
	if err := r.addNet(t, api.NetAddition{IP2Nets: "guests(eth1) 10.78.*.*", Proxy: "mpi"}); err != nil {
		t.Error(err)
	}
	if list := r.backend.Nets(); len(list) != 3 || list[2].NIs[0].Proxy != "mpi" {
		t.Errorf("nets: %+v", list)
	}
	err := r.addNet(t, api.NetAddition{IP2Nets: "tcp4(eth1) 10.78.*.*", Proxy: "mpi"})
	if errno, text := refusal(t, err); errno != -22 || text != "invalid proxy" || !strings.Contains(err.Error(), "tcp nets are not served by proxies") {
		t.Error(err)
	}
}

// A net whose type the configuration has begun to name needs a restart.
func TestRemedyOfANewNetType(t *testing.T) {
	if err := lnet.NameType(guests); err != nil {
		t.Fatal(err)
	}
	ni := config.NI{Net: lnet.MakeNet(guests.Type, 0), Where: "d.yaml:3: net[0]"}
	if p := undriven("d.yaml", &ni); !strings.Contains(p.Remedy, "restart lnetd") {
		t.Errorf("the remedy is %q", p.Remedy)
	}
}

// A reload gives an NI the present address of its interface if the interface has lost the former one.
func TestProxiedNIMoves(t *testing.T) {
	const text = "net: [{net type: guests, interfaces: {0: eth0}, proxy: mpi}]"
	r, h := startProxied(t, text)
	h.Set(lo, device("eth0", "10.77.0.12/24"))
	if err := r.reload(t, parse(t, text+netTypes)); err != nil {
		t.Fatal(err)
	}
	if ni := r.backend.Nets()[1].NIs[0]; ni.NID.String() != "10.77.0.12@guests" || ni.Proxy != "mpi" {
		t.Errorf("the NI is %s for proxies with the name %q", ni.NID, ni.Proxy)
	}
}
