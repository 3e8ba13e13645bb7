package fuzz

import (
	"context"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// role is a node of a recording that our node replaces.
type role struct {
	file, name string
	devices    []device
	nis        []ni
	parameters func(p *node.Parameters)
	// server is the node to which selftest's client sends its requests. "" means that our node is the
	// server.
	server string
	acts   []adminAction
	// until is the time at which the play ends, 0 for the end of the recording. left is the number of
	// later units.
	until time.Duration
	left  int
	// peers is the kernel's view of its peers at the end.
	peers   []string
	differs []allowance
	chance  []allowance // in addition to those allowed in every role
}

type device struct{ name, addrs string }

type ni struct{ nid, device string }

// adminAction is an action of an administrator.
type adminAction struct {
	at time.Duration // since the first packet; before the steps at that time
	do func(p *replay)
}

// Nodes of the recordings.
var (
	ethA  = []device{{"eth0", "10.77.0.11/24 fd77::11/64"}, {"eth1", "10.78.0.11/24"}}
	ethB  = []device{{"eth0", "10.77.0.12/24 fd77::12/64"}, {"eth1", "10.78.0.12/24"}}
	ethB1 = []device{{"eth0", "10.78.0.12/24"}}
	ethC  = []device{{"eth0", "10.77.0.13/24"}}
	ethR  = []device{{"eth0", "10.77.0.20/24"}, {"eth1", "10.78.0.20/24"}}
)

var roles = slices.Concat(
	discoveryAndRouting,
	addedAndDeleted,
	untilCut,
	consoleApart,
	selftestRoles("e-lst-brw-write-4k", nil, nil),
	selftestRoles("e-lst-brw-write-1m", []allowance{zeroCopyRequests}, nil),
	selftestRoles("e4-min-bulk-threshold", nil, nil),
	selftestRoles("f-lst-brw-read-4k", nil, nil),
	selftestRoles("f-lst-brw-read-1m", nil, []allowance{zeroCopyRequests}),
)

// consoleApart has selftest's console on a third node.
var consoleApart = []*role{
	{
		file: "d-lst-ping", name: "peerA", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}},
		acts: []adminAction{{0, startSelftest}, {580 * time.Millisecond, sendNext}},
		peers: []string{
			"10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp", "10.77.0.13@tcp multi-rail true: 10.77.0.13@tcp",
		},
	},
	{
		file: "d-lst-ping", name: "peerB", devices: ethB, nis: []ni{{"10.77.0.12@tcp", "eth0"}},
		acts: []adminAction{{0, startSelftest}},
		peers: []string{
			"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp", "10.77.0.13@tcp multi-rail true: 10.77.0.13@tcp",
		},
	},
	{
		file: "d-lst-ping", name: "peerC", devices: ethC, nis: []ni{{"10.77.0.13@tcp", "eth0"}},
		acts: []adminAction{{0, startSelftest}, {0, sendNext}, {160 * time.Millisecond, sendNext}},
		peers: []string{
			"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp", "10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp",
		},
	},
}

// addedAndDeleted has NIs that are added and deleted.
var addedAndDeleted = []*role{
	{
		file: "o7-tcp-net-del-add-push", name: "peerA", devices: ethA,
		nis: []ni{{"10.77.0.11@tcp", "eth0"}, {"10.78.0.11@tcp1", "eth1"}},
		acts: []adminAction{
			{0, discover("10.77.0.12@tcp")},
			{1700 * time.Millisecond, removeNI("10.78.0.11@tcp1")},
			{8200 * time.Millisecond, func(p *replay) { p.addNI(ni{"10.78.0.11@tcp1", "eth1"}) }},
			{16100 * time.Millisecond, func(p *replay) { p.addNI(ni{"10.77.0.11@tcp9", "eth0"}) }},
			{25900 * time.Millisecond, removeNI("10.77.0.11@tcp9")},
		},
		// When the net of a peer's primary NID is removed, a kernel pushes at once to the NID that
		// becomes the primary one. Our node first asks the peer for its primary NID, and then pushes.
		until: 33300 * time.Millisecond, left: 15,
		peers: []string{"10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp 10.78.0.12@tcp1"},
	},
}

// untilCut has two rails. One is cut at 5.2 s, and the GET sent on it at 6.4 s is lost. Later
// events depend on timeouts of up to 50 s.
var untilCut = []*role{
	{
		file: "o6-tcp-rail-cut-recovery", name: "peerA", devices: ethA,
		nis: []ni{{"10.77.0.11@tcp", "eth0"}, {"10.78.0.11@tcp1", "eth1"}},
		acts: []adminAction{
			{0, discover("10.77.0.12@tcp")},
			{460 * time.Millisecond, ping("10.77.0.12@tcp")},
			{1400 * time.Millisecond, ping("10.77.0.12@tcp")},
			{2200 * time.Millisecond, ping("10.77.0.12@tcp")},
			{3 * time.Second, ping("10.77.0.12@tcp")},
			{3900 * time.Millisecond, ping("10.77.0.12@tcp")},
			{4600 * time.Millisecond, ping("10.77.0.12@tcp")},
			{5500 * time.Millisecond, ping("10.77.0.12@tcp")},
		},
		until: 6300 * time.Millisecond, left: 44,
		peers: []string{"10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp 10.78.0.12@tcp1"},
	},
	{
		file: "o6-tcp-rail-cut-recovery", name: "peerB", devices: ethB,
		nis:   []ni{{"10.77.0.12@tcp", "eth0"}, {"10.78.0.12@tcp1", "eth1"}},
		until: 6300 * time.Millisecond, left: 44,
		peers: []string{"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp 10.78.0.11@tcp1"},
	},
}

var discoveryAndRouting = []*role{
	{
		file: "a-tcp-ping-discovery-on", name: "peerA", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}},
		acts: []adminAction{
			{0, ping("10.77.0.12@tcp")},
			{2500 * time.Millisecond, ping("10.77.0.12@tcp")},
			{3900 * time.Millisecond, discover("10.77.0.12@tcp")},
		},
		peers: []string{"10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp"},
	},
	{
		file: "a-tcp-ping-discovery-on", name: "peerB", devices: ethB, nis: []ni{{"10.77.0.12@tcp", "eth0"}},
		acts:  []adminAction{{5300 * time.Millisecond, ping("10.77.0.11@tcp")}},
		peers: []string{"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp"},
	},
	{
		file: "b-tcp-ping-discovery-off", name: "peerA", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}},
		parameters: discoveryOff, server: "10.77.0.12@tcp",
		acts: []adminAction{
			{0, ping("10.77.0.12@tcp")},
			{1500 * time.Millisecond, discover("10.77.0.12@tcp")},
			{10 * time.Second, startSelftest},
		},
		peers: []string{"10.77.0.12@tcp multi-rail false: 10.77.0.12@tcp"},
	},
	{
		file: "b-tcp-ping-discovery-off", name: "peerB", devices: ethB, nis: []ni{{"10.77.0.12@tcp", "eth0"}},
		parameters: discoveryOff,
		acts: []adminAction{
			{10 * time.Second, startSelftest},
			// The first answer to a request waits for a ping of its sender.
			{10130 * time.Millisecond, sendNext},
		},
		peers: []string{"10.77.0.11@tcp multi-rail false: 10.77.0.11@tcp"},
	},
	{
		file: "c-multirail-discovery", name: "peerA", devices: ethA,
		nis:    []ni{{"10.77.0.11@tcp", "eth0"}, {"10.78.0.11@tcp1", "eth1"}},
		server: "10.77.0.12@tcp",
		acts: []adminAction{
			{0, discover("10.77.0.12@tcp")},
			{20 * time.Second, lastUsed("10.78.0.12:1023")},
			{21 * time.Second, startSelftest},
		},
		peers: []string{"10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp 10.78.0.12@tcp1"},
	},
	{
		file: "c-multirail-discovery", name: "peerB", devices: ethB,
		nis: []ni{{"10.77.0.12@tcp", "eth0"}, {"10.78.0.12@tcp1", "eth1"}},
		acts: []adminAction{
			{3500 * time.Millisecond, lastUsed("10.78.0.12:1023")},
			{3600 * time.Millisecond, func(p *replay) { p.addNI(ni{"10.77.0.12@tcp9", "eth0"}) }},
			{9200 * time.Millisecond, removeNI("10.77.0.12@tcp9")},
			{21 * time.Second, startSelftest},
		},
		peers: []string{"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp 10.78.0.11@tcp1"},
	},
	{
		file: "j-ipv6-large-nid", name: "peerA", devices: ethA, nis: []ni{{"fd77::11@tcp", "eth0"}},
		acts: []adminAction{
			{0, ping("fd77::12@tcp")},
			{2500 * time.Millisecond, discover("fd77::12@tcp")},
			{5 * time.Second, func(p *replay) { p.addNI(ni{"10.78.0.11@tcp1", "eth1"}) }},
			{14400 * time.Millisecond, ping("fd77::12@tcp")},
			{16800 * time.Millisecond, ping("10.78.0.12@tcp1")},
		},
		peers: []string{"fd77::12@tcp multi-rail true: fd77::12@tcp 10.78.0.12@tcp1"},
	},
	{
		file: "j-ipv6-large-nid", name: "peerB", devices: ethB, nis: []ni{{"fd77::12@tcp", "eth0"}},
		acts: []adminAction{
			{9700 * time.Millisecond, func(p *replay) { p.addNI(ni{"10.78.0.12@tcp1", "eth1"}) }},
		},
		peers: []string{"fd77::11@tcp multi-rail true: fd77::11@tcp 10.78.0.11@tcp1"},
	},
	{
		file: "i-routed-tcp-tcp1", name: "peerA", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}},
		parameters: checkedRouters, server: "10.78.0.12@tcp1",
		acts: []adminAction{
			{0, addRoute("tcp1", "10.77.0.20@tcp")},
			{10 * time.Second, routeIs(false)},
			{14 * time.Second, routeIs(true)},
			{15300 * time.Millisecond, checkRouter},
			{29600 * time.Millisecond, checkRouter},
			{36600 * time.Millisecond, ping("10.78.0.12@tcp1")},
			{39 * time.Second, discover("10.78.0.12@tcp1")},
			{45 * time.Second, checkRouter},
			{47 * time.Second, startSelftest},
			{60300 * time.Millisecond, checkRouter},
		},
		peers: []string{
			"10.77.0.20@tcp multi-rail true: 10.77.0.20@tcp 10.78.0.20@tcp1",
			"10.78.0.12@tcp1 multi-rail true: 10.78.0.12@tcp1",
		},
	},
	{
		file: "i-routed-tcp-tcp1", name: "peerB", devices: ethB1, nis: []ni{{"10.78.0.12@tcp1", "eth0"}},
		parameters: checkedRouters,
		acts: []adminAction{
			{500 * time.Millisecond, addRoute("tcp", "10.78.0.20@tcp1")},
			{10 * time.Second, routeIs(false)},
			{14 * time.Second, routeIs(true)},
			{15900 * time.Millisecond, checkRouter},
			{31200 * time.Millisecond, checkRouter},
			{46600 * time.Millisecond, checkRouter},
			{47 * time.Second, startSelftest},
			{60900 * time.Millisecond, checkRouter},
		},
		peers: []string{
			"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp",
			"10.77.0.20@tcp multi-rail true: 10.77.0.20@tcp 10.78.0.20@tcp1",
		},
		differs: []allowance{zeroCopyRequests},
	},
	{
		file: "i-routed-tcp-tcp1", name: "router", devices: ethR,
		nis:  []ni{{"10.77.0.20@tcp", "eth0"}, {"10.78.0.20@tcp1", "eth1"}},
		acts: []adminAction{{12 * time.Second, startRouting}},
		peers: []string{
			"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp",
			"10.78.0.12@tcp1 multi-rail true: 10.78.0.12@tcp1",
		},
		differs: []allowance{zeroCopyRequests},
	},
}

// selftestRoles returns the roles of a recording in which selftest's client sends first. It waits for the
// end of discovery.
func selftestRoles(file string, client, server []allowance) []*role {
	return []*role{
		{
			file: file, name: "peerA", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}}, server: "10.77.0.12@tcp",
			acts:    []adminAction{{0, startSelftest}, {0, sendNext}},
			peers:   []string{"10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp"},
			differs: client,
		},
		{
			file: file, name: "peerB", devices: ethB, nis: []ni{{"10.77.0.12@tcp", "eth0"}},
			acts:    []adminAction{{0, startSelftest}},
			peers:   []string{"10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp"},
			differs: server,
		},
	}
}

func discoveryOff(p *node.Parameters) { p.Discovery = discovery.Off }

// ping is lnetctl ping.
func ping(nid string) func(p *replay) {
	return func(p *replay) {
		p.ask(func() error {
			_, err := p.node.Ping(context.Background(), lnet.ProcessID{NID: parseNID(p, nid)}, node.PingOptions{})
			return err
		})
	}
}

// discover is lnetctl discover.
func discover(nid string) func(p *replay) {
	return func(p *replay) {
		p.ask(func() error {
			_, err := p.node.Discover(context.Background(), parseNID(p, nid))
			return err
		})
	}
}

func removeNI(nid string) func(p *replay) {
	return func(p *replay) {
		if err := p.node.RemoveNI(p.t.Context(), parseNID(p, nid)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// lastUsed makes our node use the rail of a connection last, by an answer on it, as the kernel did. The
// next choice among rails is then the other one. If an ACK and a push use two rails at one time, our node
// may send either one last. The starting point of the rotation has no other meaning.
func lastUsed(active string) func(p *replay) {
	return func(p *replay) {
		for _, c := range p.order() {
			if c.Addrs[recording.Active].String() == active {
				p.pingOn(c)
			}
		}
	}
}

// sendNext makes our node send its next message of selftest.
func sendNext(p *replay) {
	for _, s := range p.steps {
		if s.ours && !s.done && p.isSelftest(s) {
			p.send(s)
			return
		}
	}
}

func parseNID(p *replay, text string) lnet.NID {
	nid, err := lnet.ParseNID(text)
	if err != nil {
		p.t.Error(err)
	}
	return nid
}

// soon is an interval after which gateways are checked as soon as possible. The test then decides when
// checks happen (checkRouter). In the recording they are 15 seconds apart.
const soon = time.Nanosecond

func checkedRouters(p *node.Parameters) { p.RouterCheckInterval = soon }

// untilChecked stops checks after the one whose ping our node sends next.
func untilChecked(p *replay) {
	p.onPing = func() { setCheckInterval(p, 0) }
}

func setCheckInterval(p *replay, interval time.Duration) {
	parameters := p.node.Admin().Parameters()
	parameters.RouterCheckInterval = interval
	if err := p.node.Admin().SetParameters(parameters); err != nil {
		p.t.Fatal(err)
	}
}

// addRoute is lnetctl route add with --hop 1. The gateway is checked at once.
func addRoute(net, gateway string) func(p *replay) {
	return func(p *replay) {
		to, err := lnet.ParseNet(net)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := p.node.Admin().AddRoute(p.t.Context(), to, parseNID(p, gateway), node.RouteOptions{Hops: 1}); err != nil {
			p.t.Fatal(err)
		}
		untilChecked(p)
	}
}

// checkRouter allows the check of the gateway that is due.
func checkRouter(p *replay) {
	setCheckInterval(p, soon)
	for _, r := range p.node.Admin().Routes() {
		// The discoverer reads its parameters only when it has something to do.
		p.ask(func() error {
			_, err := p.node.PrimaryNID(context.Background(), r.Gateway)
			return err
		})
	}
	untilChecked(p)
}

// routeIs checks the state of the route, as lnetctl route show prints it.
func routeIs(up bool) func(p *replay) {
	return func(p *replay) {
		for _, r := range p.node.Admin().Routes() {
			if r.Up != up {
				p.t.Errorf("route to %s by %s is up: %t, want %t", r.Net, r.Gateway, r.Up, up)
			}
		}
	}
}

// startRouting makes our node a router that announces this as fast as other nodes do, but with short
// parameters. It forwards messages later.
func startRouting(p *replay) {
	recorded := p.node.Admin().Parameters()
	short := recorded
	short.RouterCheckInterval, short.RouterPingTimeout = time.Second, time.Second
	if err := p.node.Admin().SetParameters(short); err != nil {
		p.t.Fatal(err)
	}
	if err := p.node.Admin().EnableRouting(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.node.Admin().SetParameters(recorded); err != nil {
		p.t.Fatal(err)
	}
}
