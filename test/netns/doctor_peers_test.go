package netns

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// faultyPeers is a pair whose network, peer or NIDs are wrong.
func faultyPeers(t *testing.T, r *record) {
	a, b := pair(t)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{})
	toB := []string{b.nid()}
	a.wantFindings(t, "a healthy pair", toB)

	var undo func()
	const second = "10.213.0.200"
	r.suffer(t, a,
		planted{
			name: "large packets are lost", args: toB, code: diagnosis.PacketsLost, evidence: "not to packets of 1500 bytes",
			plant: func() { undo = b.world.shrink(t, 0, 1400) }, mend: func() { undo() },
		},
		planted{
			name: "lnetd of the peer is not running", args: toB, code: diagnosis.ConnectRefused, evidence: "Connection refused",
			plant: func() { other.Stop(t) }, mend: func() { other = b.startWith(t, &configuration{}) },
		},
		planted{
			name: "firewall drops", args: toB, code: diagnosis.Filtered, evidence: "other packets to " + b.addr(0) + " are answered",
			plant: func() { undo = b.firewall(t, "tcp dport 988 drop"); other.Stop(t) },
			mend:  func() { undo(); other = b.startWith(t, &configuration{}) },
		},
		planted{
			name: "firewall rejects", args: toB, code: diagnosis.ConnectRefused, evidence: "Connection refused",
			plant: func() { undo = b.firewall(t, "tcp dport 988 reject with tcp reset"); other.Stop(t) },
			mend:  func() { undo(); other = b.startWith(t, &configuration{}) },
		},
		planted{
			name: "the peer is unplugged", args: toB, code: diagnosis.HostUnreachable, evidence: b.addr(0),
			plant: func() { pull(t, 0, b) }, mend: func() { plug(t, 0, b) },
		},
		planted{
			name: "another service has the port", args: toB, code: diagnosis.LNetRefused, evidence: "TCP connects to",
			plant: func() { other.Stop(t); undo = b.mute(t) }, mend: func() { undo(); other = b.startWith(t, &configuration{}) },
		},
		planted{
			name: "a NID that the peer lacks", args: []string{second + "@tcp"}, code: diagnosis.LNetRefused, evidence: "TCP connects to " + second,
			plant: func() {
				namespace.IP(t, "-n", b.name, "addr", "add", second+"/32", "dev", "eth0")
				b.nft(t, "add table ip twist\nadd chain ip twist in { type nat hook prerouting priority -100; }\n"+
					"add rule ip twist in ip daddr "+second+" tcp dport 988 dnat to "+b.addr(0)+"\n")
			},
			mend: func() {
				b.nft(t, "delete table ip twist\n")
				namespace.IP(t, "-n", b.name, "addr", "del", second+"/32", "dev", "eth0")
			}, healed: toB,
		},
		planted{
			name: "no path", args: []string{"10.213.0.77@tcp7"}, code: diagnosis.NoRoute, evidence: "no NI on tcp7", healed: toB,
		},
		planted{
			name: "wrong net number", args: []string{b.addr(0) + "@tcp7"}, code: diagnosis.WrongNet, evidence: b.nid(), healed: toB,
		},
	)
	// The NIDs that did not answer have left nothing.
	for _, nid := range []string{second + "@tcp", b.addr(0) + "@tcp7", "10.213.0.77@tcp7"} {
		if out, status := one.Ctl(t, "peer", "show", "--nid", nid); status == 0 {
			t.Errorf("lnetd knows %s:\n%s", nid, out)
		}
	}
	other.Stop(t)
	one.Stop(t)
}

// faultyHosts is a pair and a third host that has one of their addresses.
func faultyHosts(t *testing.T, r *record) {
	w := newWorld(t, 1)
	a, b, thief := w.host(t, 0), w.host(t, 0), w.host(t, 0)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{})
	address := func(verb, address string) {
		t.Helper()
		namespace.IP(t, "-n", thief.name, "addr", verb, address+"/32", "dev", "eth0")
		for _, h := range []*host{a, b} {
			namespace.IP(t, "-n", h.name, "neigh", "flush", "dev", "eth0")
		}
	}
	a.wantFindings(t, "a healthy pair", []string{b.nid()})
	r.suffer(t, a,
		planted{
			name: "another host has the address of an NI", code: diagnosis.AddressClaimed, evidence: "on eth0 has it too",
			plant: func() { address("add", a.addr(0)) }, mend: func() { address("del", a.addr(0)) },
		},
		planted{
			name: "two hosts have the address of the peer", args: []string{b.nid()}, code: diagnosis.HostTwice, evidence: b.addr(0) + " on eth0",
			plant: func() { address("add", b.addr(0)) }, mend: func() { address("del", b.addr(0)) },
		},
	)
	other.Stop(t)
	one.Stop(t)
}

// faultyTwins is a pair whose peer has two interfaces on one network, both of which answer for both addresses, and a
// third host that has one of these addresses.
func faultyTwins(t *testing.T, r *record) {
	w := newWorld(t, 1)
	a, b, thief := w.host(t, 0), w.host(t, 0), w.host(t, 0)
	namespace.Cable(t, b.name, "eth1", "10.213.0.200/24", w.room(), b.port(0)+"b", bridge(0))
	for _, device := range []string{"all", "eth0", "eth1"} {
		for _, name := range []string{"arp_ignore", "arp_filter", "rp_filter"} {
			namespace.IP(t, "netns", "exec", b.name, "sysctl", "-q", "-w", fmt.Sprintf("net.ipv4.conf.%s.%s=0", device, name))
		}
	}
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{})
	other.Must(t, "net", "add", "--net", "tcp", "--if", "eth1")
	toB := []string{b.nid()}
	a.wantFindings(t, "a peer with two interfaces on a network", toB)
	r.suffer(t, a, planted{
		name: "another host has an address of a peer with two interfaces", args: toB, code: diagnosis.HostTwice, evidence: b.addr(0) + " on eth0",
		plant: func() { namespace.IP(t, "-n", thief.name, "addr", "add", b.addr(0)+"/32", "dev", "eth0") },
		mend:  func() { namespace.IP(t, "-n", thief.name, "addr", "del", b.addr(0)+"/32", "dev", "eth0") },
	})
	other.Stop(t)
	one.Stop(t)
}

// faultyRoutes is two hosts with two routers between them.
func faultyRoutes(t *testing.T, r *record) {
	w := newWorld(t, 2)
	gateways := []*host{w.host(t, 0, 1), w.host(t, 0, 1)}
	left, right := w.host(t, 0), w.host(t, 1)
	var routers []*daemon
	routes := [2][]route{}
	for _, g := range gateways {
		routers = append(routers, g.startWith(t, &configuration{router: true}))
		routes[0] = append(routes[0], route{to: 1, on: 0, gateway: g, hops: 1})
		routes[1] = append(routes[1], route{to: 0, on: 1, gateway: g, hops: 1})
	}
	client, server := left.startWith(t, &configuration{routes: routes[0]}), right.startWith(t, &configuration{routes: routes[1]})
	toRight := []string{right.nid()}
	left.wantFindings(t, "healthy routes", toRight)
	gateways[0].wantFindings(t, "a healthy router", nil)

	begin := func(k int) { routers[k] = gateways[k].startWith(t, &configuration{router: true}) }
	r.suffer(t, left,
		planted{
			name: "a gateway does not route", code: diagnosis.NotARouter, evidence: "reports that routing is off", healed: toRight,
			plant: func() { routers[0].Must(t, "set", "routing", "0") },
			mend: func() {
				daemontest.Within(t, noticePatience, "routing is enabled again", func() error { // refused while it is stopping
					if out, status := routers[0].Ctl(t, "set", "routing", "1"); status != 0 {
						return fmt.Errorf("status %d: %s", status, out)
					}
					return nil
				})
			},
		},
		planted{
			name: "a gateway that is not on the net", code: diagnosis.GatewayNoNI, evidence: "no NI on tcp5",
			plant: func() { client.Must(t, "route", "add", "--net", "tcp5", "--gateway", gateways[0].nid(), "--hop", "1") },
			mend:  func() { client.Must(t, "route", "del", "--net", "tcp5", "--gateway", gateways[0].nid()) },
		},
		planted{
			name: "one of two gateways is dead", code: diagnosis.GatewayDown, evidence: "down", healed: toRight,
			plant: func() { routers[0].Kill(t) },
			mend:  func() { begin(0) },
		},
		planted{
			name: "all gateways are dead", code: diagnosis.NetUnreachable, evidence: "no gateway is up: ", healed: toRight,
			plant: func() { routers[0].Kill(t); routers[1].Kill(t) },
			mend:  func() { begin(0); begin(1) },
		},
		planted{
			name: "a peer behind a gateway is dead", args: toRight, code: diagnosis.PingFailed, evidence: "the path leads through the gateway",
			plant: func() { server.Kill(t) },
			mend:  func() { server = right.startWith(t, &configuration{routes: routes[1]}) },
		},
	)
	for _, d := range append(routers, client, server) {
		d.Stop(t)
	}
}

// faultyReturn is two hosts with two routers between them, of which each host uses another one.
func faultyReturn(t *testing.T, r *record) {
	w := newWorld(t, 2)
	there, back := w.host(t, 0, 1), w.host(t, 0, 1)
	left, right := w.host(t, 0), w.host(t, 1)
	var all []*daemon
	for _, g := range []*host{there, back} {
		all = append(all, g.startWith(t, &configuration{router: true}))
	}
	server := right.startWith(t, &configuration{routes: []route{{to: 0, on: 1, gateway: back, hops: 1}}})
	all = append(all, server, left.startWith(t, &configuration{routes: []route{{to: 1, on: 0, gateway: there, hops: 1}}}))
	// Without these, no pings would arrive at the far sides of the routers, and their routes would be down.
	all = append(all, w.host(t, 1).startWith(t, &configuration{routes: []route{{to: 0, on: 1, gateway: there, hops: 1}}}),
		w.host(t, 0).startWith(t, &configuration{routes: []route{{to: 1, on: 0, gateway: back, hops: 1}}}))
	r.suffer(t, left, planted{
		name: "the answer takes another way", args: []string{right.nid()}, code: diagnosis.Asymmetric,
		evidence: "the request went through " + there.nidOn(0) + ", and the answer came from " + back.nidOn(0),
		mend:     func() { server.Must(t, "route", "add", "--net", "tcp", "--gateway", there.nidOn(1), "--hop", "1") },
	})
	for _, d := range all {
		d.Stop(t)
	}
}

// faultyRails is a pair with two networks, of which one does not use discovery, or of which one network is cut.
func faultyRails(t *testing.T, r *record) {
	w := newWorld(t, 2)
	a, b := w.host(t, 0, 1), w.host(t, 0, 1)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{alone: true})
	toB := []string{b.nid()}
	var mend func()
	r.suffer(t, a,
		planted{
			name: "discovery is off on the peer", args: toB, code: diagnosis.DiscoveryOffPeer, evidence: "reports that it is off there",
			mend: func() { other.Must(t, "set", "discovery", "1") },
		},
		planted{
			name: "discovery is off here", args: toB, code: diagnosis.DiscoveryOffHere, evidence: "has 2 NIDs",
			plant: func() { one.Must(t, "set", "discovery", "0") },
			mend:  func() { one.Must(t, "set", "discovery", "1") },
		},
		planted{
			// As soon as lnetd knows it, doctor's ping of that NID uses the other rail.
			name: "a rail is cut", args: toB, code: diagnosis.RailSilent, or: diagnosis.PeerSilent,
			plant: func() { mend = w.blackHole(t, 1) }, mend: func() { mend() },
		},
		planted{
			name: "messages avoid a net", args: toB, code: diagnosis.NetAvoided, evidence: "messages use tcp, because tcp1 has",
			plant: func() { mend = w.blackHole(t, 1) }, mend: func() { mend() },
		},
		planted{
			name: "a NID of a peer has reduced health", code: diagnosis.PeerUnhealthy, evidence: "health ", fades: true,
			plant: func() { one.Must(t, "peer", "set", "--nid", b.nidOn(1), "--health", "500") },
			mend:  func() { one.Must(t, "peer", "set", "--nid", b.nidOn(1), "--health", "1000") },
		},
		planted{
			name: "an NI has reduced health", code: diagnosis.NIUnhealthy, evidence: "health ", fades: true,
			plant: func() { one.Must(t, "net", "set", "--nid", a.nidOn(1), "--health", "500") },
			mend:  func() { one.Must(t, "net", "set", "--nid", a.nidOn(1), "--health", "1000") },
		},
	)
	other.Stop(t)
	one.Stop(t)
}
