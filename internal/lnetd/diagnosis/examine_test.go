package diagnosis_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/lnet"
)

var (
	started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	own     = netip.MustParseAddr("10.0.0.1")
	gateway = "10.0.0.9@tcp"
)

func nid(t *testing.T, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// healthy returns facts about a node with an NI on eth0, a peer, a route and a peer that was asked.
func healthy(t *testing.T) *diagnosis.Facts {
	ni := func(s, device string) api.NI {
		return api.NI{NID: nid(t, s), Status: "up", Interfaces: []string{device}, Health: api.HealthStats{Value: 1000}}
	}
	peer := func(s string, state uint32) api.Peer {
		return api.Peer{Primary: nid(t, s), State: state, NIs: []api.PeerNI{{NID: nid(t, s), Health: api.PeerHealthStats{Value: 1000}}}}
	}
	router := peer(gateway, 1<<2|1<<4)
	router.Gateway = true
	target := nid(t, "10.0.0.2@tcp")
	return &diagnosis.Facts{
		Node: &diagnosis.Node{
			Version: api.Version{Started: started},
			Nets: api.Nets{Nets: []api.Net{
				{Net: lnet.LoopbackNID.Net(), NIs: []api.NI{{NID: lnet.LoopbackNID, Status: "up"}}},
				{Net: target.Net(), NIs: []api.NI{ni("10.0.0.1@tcp", "eth0")}},
			}},
			Peers:   []api.Peer{router, peer("10.0.0.2@tcp", 1<<4)},
			Routes:  []api.Route{{Net: nid(t, "1.1.1.1@tcp9").Net(), Gateway: nid(t, gateway), Hops: 1, Up: true, SingleHop: true}},
			Globals: api.Globals{Values: map[string]int64{"discovery": 1, "transaction_timeout": 150}},
		},
		Host: &diagnosis.Host{
			Interfaces: []diagnosis.Interface{
				{Name: "lo", On: true, Carrier: true, Loopback: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
				{Name: "eth0", On: true, Carrier: true, Addrs: []netip.Addr{own}},
				{Name: "eth1", On: true, Carrier: true, Addrs: []netip.Addr{netip.MustParseAddr("10.0.1.1")}},
			},
			Files: diagnosis.Files{Open: 20, Limit: 1024}, Started: started.Add(-time.Second),
			Disks: []diagnosis.Disk{{Path: "/run/lnetd", Free: 1 << 30}},
		},
		Peer: &diagnosis.Peer{
			NID: target, Ping: api.PingResult{Primary: target, NIDs: []lnet.NID{target}},
			Path: &api.Path{From: nid(t, "10.0.0.1@tcp"), To: target},
			TCP: &diagnosis.TCP{
				At: netip.MustParseAddrPort("10.0.0.2:988"), Connect: diagnosis.Answered,
				Small: diagnosis.Answered, Large: diagnosis.Answered, LargeBytes: 1500,
			},
		},
	}
}

// notRunning returns facts about a host without an lnetd, with the result of a check of a start.
func notRunning(t *testing.T, s *diagnosis.Start) *diagnosis.Facts {
	return &diagnosis.Facts{
		Unreachable: &api.Fault{Code: api.CodeDaemonUnreachable, Errno: -2, Text: "cannot reach lnetd"},
		Start:       s, Host: healthy(t).Host,
	}
}

func failed(f *diagnosis.Facts) *diagnosis.Peer {
	f.Peer.Ping = api.PingResult{Error: &api.Fault{Text: "failed to ping", Cause: "timed out"}}
	return f.Peer
}

// waitingFor returns facts about a node with an NI that waits for an interface.
func waitingFor(t *testing.T, device, s string) *diagnosis.Facts {
	f := healthy(t)
	w := api.WaitingNI{Net: nid(t, "10.0.1.1@tcp1").Net(), Interface: device, Cause: "some cause"}
	if s != "" {
		w.NID = nid(t, s)
	}
	f.Node.Nets.Waiting = []api.WaitingNI{w}
	return f
}

// rdma adds an NI on a net with RDMA.
func rdma(t *testing.T, f *diagnosis.Facts) {
	n := nid(t, "10.0.0.1@o2ib")
	f.Node.Nets.Nets = append(f.Node.Nets.Nets, api.Net{Net: n.Net(), NIs: []api.NI{{NID: n, Status: "up", Health: api.HealthStats{Value: 1000}}}})
}

// traffic returns the choice of tcp instead of tcp1 because of a criterion.
func traffic(by string) *api.Explanation {
	figures := func(v int64) []api.Figure { return []api.Figure{{Criterion: by, Value: v, Text: fmt.Sprint(v)}} }
	return &api.Explanation{Steps: []api.ExplainedStep{{What: "net", Candidates: []api.RankedCandidate{
		{Name: "tcp", Figures: figures(1000)}, {Name: "tcp1", By: by, Figures: figures(900)},
	}}}}
}

// answeredFrom puts the peer behind the gateway. Its answer comes from a NID.
func answeredFrom(t *testing.T, f *diagnosis.Facts, sender string) {
	f.Peer.Path.Gateway, f.Peer.Ping.Sender, f.Peer.TCP = nid(t, gateway), nid(t, sender), nil
}

type story struct {
	name     string
	facts    *diagnosis.Facts
	subject  string
	evidence string // part of it
	want     []diagnosis.Code
}

// changed returns a story about healthy facts that change has changed.
func changed(t *testing.T, name string, change func(f *diagnosis.Facts), subject, evidence string, want ...diagnosis.Code) story {
	f := healthy(t)
	change(f)
	return story{name, f, subject, evidence, want}
}

func TestExamine(t *testing.T) {
	stories := slices.Concat(lnetdStories(t), niStories(t), peerStories(t), routeStories(t))
	covered := map[diagnosis.Code]bool{}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			var got []diagnosis.Code
			findings := diagnosis.Examine(s.facts)
			for _, f := range findings {
				got = append(got, f.Code)
				covered[f.Code] = true
				if f.Evidence == "" || f.Remedy == "" || f.Subject == "" || !strings.HasSuffix(f.Page, "#"+strings.ToLower(string(f.Code))) {
					t.Errorf("a part is missing: %+v", f)
				}
			}
			if diff := cmp.Diff(s.want, got); diff != "" {
				t.Errorf("codes (-want +got):\n%s%+v", diff, findings)
			}
			if len(s.want) > 0 && !slices.ContainsFunc(findings, func(f diagnosis.Finding) bool {
				return f.Subject == s.subject && strings.Contains(f.Evidence, s.evidence)
			}) {
				t.Errorf("no finding about %q with %q: %+v", s.subject, s.evidence, findings)
			}
		})
	}
	for _, k := range diagnosis.Kinds {
		if !covered[k.Code] {
			t.Errorf("no story about %s", k.Code)
		}
	}
}

func lnetdStories(t *testing.T) []story {
	check := func(c *api.Check) *diagnosis.Facts {
		return notRunning(t, &diagnosis.Start{Program: "/usr/bin/lnetd", Check: c})
	}
	asked := func(code api.Code, errno int) *diagnosis.Facts {
		return &diagnosis.Facts{Unreachable: &api.Fault{Code: code, Errno: errno, Text: "cannot reach lnetd", Cause: "why", Remedy: "do this"}}
	}
	used := api.PortCheck{Fault: &api.Fault{Code: api.CodePortInUse, Text: "TCP port 10.0.0.1:988 is in use", Cause: "it belongs to pid 7", Remedy: "stop"}}
	denied := &api.Fault{Code: api.CodePortForbidden, Text: "no permission to listen on 10.0.0.1:988", Remedy: "run as root"}
	waiting := []api.WaitingNI{{Net: nid(t, "10.0.0.1@tcp").Net(), Interface: "eth5", Cause: "no such network device"}}
	return []story{
		{"healthy", healthy(t), "", "", nil},
		{"nothing known", &diagnosis.Facts{}, "", "", nil},
		{"can start", check(&api.Check{}), "lnetd", "cannot reach lnetd", []diagnosis.Code{diagnosis.NotRunning}},
		{"no program", notRunning(t, &diagnosis.Start{Error: "none"}), "lnetd", "none", []diagnosis.Code{diagnosis.NotRunning, diagnosis.ProgramAbsent}},
		{"no access", asked(api.CodeDaemonUnreachable, -13), "lnetd", "cannot reach lnetd: why", []diagnosis.Code{diagnosis.NoAccess}},
		{"not trusted", asked(api.CodeDaemonUnreachable, -1), "lnetd", "why", []diagnosis.Code{diagnosis.NoAccess}},
		{"no answer", asked(api.CodeBusy, -110), "lnetd", "why", []diagnosis.Code{diagnosis.NoAnswer}},
		{"invalid file", check(&api.Check{File: "f.yaml", Fault: &api.Fault{Problems: []api.Problem{
			{Line: 3, Key: "net", Text: "wrong", Remedy: "right"}, {Text: "odd", Warning: true},
		}}}), "f.yaml", "line 3: net: wrong", []diagnosis.Code{diagnosis.NotRunning, diagnosis.ConfigRejected}},
		{"unreadable file", check(&api.Check{File: "f.yaml", Fault: &api.Fault{Text: "cannot be read", Cause: "EACCES"}}),
			"f.yaml", "cannot be read: EACCES", []diagnosis.Code{diagnosis.NotRunning, diagnosis.ConfigRejected}},
		{"no driver", check(&api.Check{File: "f.yaml", Fault: &api.Fault{}, Undriven: []api.Problem{{Text: "no driver for o2ib"}}}),
			"f.yaml", "no driver for o2ib", []diagnosis.Code{diagnosis.NotRunning, diagnosis.DriverAbsent}},
		{"a warning", check(&api.Check{Warnings: []api.Problem{{Text: "no effect"}}}),
			"the default configuration", "no effect", []diagnosis.Code{diagnosis.NotRunning, diagnosis.ConfigSuspicious}},
		{"port in use", check(&api.Check{Ports: []api.PortCheck{used}}), "port", "it belongs to pid 7", []diagnosis.Code{diagnosis.NotRunning, diagnosis.PortInUse}},
		{"port forbidden", check(&api.Check{Ports: []api.PortCheck{{Fault: denied}}}), "port", "no permission", []diagnosis.Code{diagnosis.NotRunning, diagnosis.PortForbidden}},
		{"other port", check(&api.Check{Ports: []api.PortCheck{{Fault: denied, Fallback: true}}}), "port", "no permission", []diagnosis.Code{diagnosis.NotRunning, diagnosis.PortFallback}},
		{"interface missing at a start", check(&api.Check{Waiting: waiting}), "tcp(eth5)", "no such network device", []diagnosis.Code{diagnosis.NotRunning, diagnosis.InterfaceMissing}},
		{"unconfigured", &diagnosis.Facts{Node: &diagnosis.Node{Down: true}}, "LNet", "network is down", []diagnosis.Code{diagnosis.Unconfigured}},
		changed(t, "few descriptors", func(f *diagnosis.Facts) { f.Host.Files.Open = 768 }, "lnetd", "768 of 1024", diagnosis.FewDescriptors),
		changed(t, "enough descriptors", func(f *diagnosis.Facts) { f.Host.Files.Open = 767 }, "", ""),
		changed(t, "stuck", func(f *diagnosis.Facts) { f.Stuck = "monitor" }, "lnetd", "no progress in: monitor", diagnosis.NodeStuck),
		changed(t, "RDMA and little lockable memory", func(f *diagnosis.Facts) {
			rdma(t, f)
			f.Host.Locked, f.Host.Lockable = 48<<20, 64<<20
		}, "lnetd", "50331648 of 67108864 bytes are locked", diagnosis.FewLockable),
		changed(t, "RDMA and enough lockable memory", func(f *diagnosis.Facts) {
			rdma(t, f)
			f.Host.Locked, f.Host.Lockable = 48<<20-1, 64<<20
		}, "", ""),
		changed(t, "RDMA that waits", func(f *diagnosis.Facts) {
			f.Node.Nets.Waiting = []api.WaitingNI{{Net: nid(t, "10.0.0.1@o2ib").Net(), Interface: "eth0", Cause: "too low"}}
			f.Host.Lockable = 64 << 20
		}, "lnetd", "0 of 67108864 bytes are locked", diagnosis.NIWaits, diagnosis.FewLockable),
		changed(t, "little lockable memory without RDMA", func(f *diagnosis.Facts) { f.Host.Lockable = 65536 }, "", ""),
		changed(t, "clock set back", func(f *diagnosis.Facts) { f.Host.Started = f.Node.Version.Started.Add(-time.Hour) }, "lnetd", "it was set back by 1h0m0s", diagnosis.ClockSet),
		changed(t, "clock set ahead", func(f *diagnosis.Facts) { f.Host.Started = f.Node.Version.Started.Add(61 * time.Second) }, "lnetd", "it was set ahead by 1m1s", diagnosis.ClockSet),
		changed(t, "a slow start", func(f *diagnosis.Facts) { f.Host.Started = f.Node.Version.Started.Add(-time.Minute) }, "", ""),
		changed(t, "full disk", func(f *diagnosis.Facts) { f.Host.Disks[0].Free = 4096 }, "/run/lnetd", "4096 bytes", diagnosis.DiskFull),
	}
}

func niStories(t *testing.T) []story {
	ni := func(f *diagnosis.Facts) *api.NI { return &f.Node.Nets.Nets[1].NIs[0] }
	down := func(f *diagnosis.Facts) *diagnosis.Interface {
		ni(f).Status, ni(f).Reason = "down", "link down"
		return &f.Host.Interfaces[1]
	}
	noHost := waitingFor(t, "eth5", "")
	noHost.Host = nil
	unusable := waitingFor(t, "eth1", "")
	return []story{
		{"waits for a device", waitingFor(t, "eth5", ""), "tcp1(eth5)", "some cause", []diagnosis.Code{diagnosis.InterfaceMissing}},
		{"waits for an address", waitingFor(t, "", "10.0.7.7@tcp1"), "10.0.7.7@tcp1", "no interface has", []diagnosis.Code{diagnosis.AddressMissing}},
		{"waits for an address on a device", waitingFor(t, "eth1", "10.0.7.7@tcp1"), "tcp1(eth1)", "its addresses: 10.0.1.1", []diagnosis.Code{diagnosis.AddressMissing}},
		{"waits for a renamed device", waitingFor(t, "eth5", "10.0.1.1@tcp1"), "tcp1(eth5)", "eth1 has the address", []diagnosis.Code{diagnosis.InterfaceRenamed}},
		{"waits without knowledge of the host", noHost, "tcp1(eth5)", "some cause", []diagnosis.Code{diagnosis.NIWaits}},
		{"waits for another reason", unusable, "tcp1(eth1)", "some cause", []diagnosis.Code{diagnosis.NIWaits}},
		changed(t, "switched off", func(f *diagnosis.Facts) { down(f).On = false }, "10.0.0.1@tcp", "eth0 is switched off", diagnosis.InterfaceOff, diagnosis.NoNIUp),
		changed(t, "no carrier", func(f *diagnosis.Facts) { down(f).Carrier = false }, "10.0.0.1@tcp", "eth0 has no carrier", diagnosis.NoCarrier, diagnosis.NoNIUp),
		changed(t, "address lost", func(f *diagnosis.Facts) { down(f).Addrs = nil }, "10.0.0.1@tcp", "its addresses: none", diagnosis.AddressMissing, diagnosis.NoNIUp),
		changed(t, "renamed", func(f *diagnosis.Facts) { down(f).Name = "lan0" }, "10.0.0.1@tcp", "lan0 has the address", diagnosis.InterfaceRenamed, diagnosis.NoNIUp),
		changed(t, "gone", func(f *diagnosis.Facts) { down(f); f.Host.Interfaces = f.Host.Interfaces[:1] }, "10.0.0.1@tcp", "there is no eth0", diagnosis.InterfaceMissing, diagnosis.NoNIUp),
		changed(t, "down otherwise", func(f *diagnosis.Facts) { down(f) }, "10.0.0.1@tcp", "link down", diagnosis.NIDown, diagnosis.NoNIUp),
		changed(t, "unhealthy", func(f *diagnosis.Facts) { ni(f).Health.Value, ni(f).Health.Timeouts = 900, 3 }, "10.0.0.1@tcp", "health 900 of 1000; 3 timeouts", diagnosis.NIUnhealthy),
		changed(t, "twice", func(f *diagnosis.Facts) {
			f.Host.Interfaces[2].Addrs = append(f.Host.Interfaces[2].Addrs, own)
		}, "10.0.0.1@tcp", "eth0 and eth1 both have 10.0.0.1", diagnosis.AddressTwice),
		changed(t, "an address that another host has", func(f *diagnosis.Facts) {
			f.Host.Claims = []diagnosis.Claim{{Interface: "eth0", Address: own, Hardware: "02:00:00:00:00:07"}}
		}, own.String(), "02:00:00:00:00:07 on eth0", diagnosis.AddressClaimed),
		changed(t, "long timeout", func(f *diagnosis.Facts) { ni(f).LND = []api.Tunable{{Name: "timeout", Value: 151}} }, "10.0.0.1@tcp", "timeout 151 s, and transaction_timeout 150 s", diagnosis.TimeoutLong),
		changed(t, "equal timeouts", func(f *diagnosis.Facts) { ni(f).LND = []api.Tunable{{Name: "timeout", Value: 150}} }, "", ""),
		changed(t, "an alias", func(f *diagnosis.Facts) { ni(f).Interfaces[0] = "eth0:1" }, "", ""),
		changed(t, "only loopback", func(f *diagnosis.Facts) {
			ni(f).NID, ni(f).Interfaces = nid(t, "127.0.0.1@tcp"), []string{"lo"}
		}, "lnetd", "1 of 1", diagnosis.OnlyLoopback),
	}
}

func peerStories(t *testing.T) []story {
	peerNI := func(f *diagnosis.Facts) *api.PeerNI { return &f.Node.Peers[1].NIs[0] }
	probed := func(connect, small, large diagnosis.Reply) func(f *diagnosis.Facts) {
		return func(f *diagnosis.Facts) {
			p := failed(f)
			p.TCP.Connect, p.TCP.Small, p.TCP.Large, p.TCP.Detail = connect, small, large, "the error"
		}
	}
	const name = "10.0.0.2@tcp"
	return []story{
		changed(t, "in trouble", func(f *diagnosis.Facts) { peerNI(f).Trouble = "link down" }, name, "link down", diagnosis.PeerSilent),
		changed(t, "mistyped", func(f *diagnosis.Facts) { peerNI(f).Trouble, f.Node.Peers[1].Unanswered = "not answering", true }, "", ""),
		changed(t, "unhealthy peer", func(f *diagnosis.Facts) { peerNI(f).Health.Value = 0 }, name, "health 0 of 1000", diagnosis.PeerUnhealthy),
		changed(t, "conflict", func(f *diagnosis.Facts) { f.Node.Peers[1].State |= 1 << 21 }, name, "BAD_CONFIG", diagnosis.PeerConflict),
		changed(t, "no path", func(f *diagnosis.Facts) { failed(f).Path = nil }, name, "timed out", diagnosis.NoRoute),
		changed(t, "no path, other net", func(f *diagnosis.Facts) { failed(f).Path, f.Peer.Elsewhere = nil, nid(t, "10.0.0.2@tcp1") }, name, "10.0.0.2@tcp1 does", diagnosis.WrongNet),
		changed(t, "refuses LNet, other net", func(f *diagnosis.Facts) { failed(f).Elsewhere = nid(t, "10.0.0.2@tcp1") }, name, "10.0.0.2@tcp1 does", diagnosis.WrongNet),
		changed(t, "refused", probed(diagnosis.Refused, diagnosis.Answered, diagnosis.Untried), name, "the error", diagnosis.ConnectRefused),
		changed(t, "filtered", probed(diagnosis.Silent, diagnosis.Answered, diagnosis.Untried), name, "other packets to 10.0.0.2 are answered", diagnosis.Filtered),
		changed(t, "silent", probed(diagnosis.Silent, diagnosis.Silent, diagnosis.Untried), name, "nor to other packets", diagnosis.HostUnreachable),
		changed(t, "no IP route", probed(diagnosis.NoPath, diagnosis.NoPath, diagnosis.Untried), name, "the error", diagnosis.HostUnreachable),
		changed(t, "refuses LNet", probed(diagnosis.Answered, diagnosis.Answered, diagnosis.Answered), name, "TCP connects to 10.0.0.2:988", diagnosis.LNetRefused),
		changed(t, "not probed", probed(diagnosis.Untried, diagnosis.Untried, diagnosis.Untried), name, "timed out", diagnosis.PingFailed),
		changed(t, "no TCP", func(f *diagnosis.Facts) { failed(f).TCP = nil }, name, "failed to ping (timed out)", diagnosis.PingFailed),
		changed(t, "behind a router", func(f *diagnosis.Facts) { failed(f).Path.Gateway = nid(t, gateway) }, name, "through the gateway 10.0.0.9@tcp", diagnosis.PingFailed),
		changed(t, "large packets lost", func(f *diagnosis.Facts) { f.Peer.TCP.Large = diagnosis.Silent }, name, "packets of 1500 bytes", diagnosis.PacketsLost),
		changed(t, "large packets lost, and the ping", probed(diagnosis.Answered, diagnosis.Answered, diagnosis.Silent), name, "packets of 1500 bytes", diagnosis.PacketsLost),
		changed(t, "large packets not tried", func(f *diagnosis.Facts) { f.Peer.TCP.Large = diagnosis.Untried }, "", ""),
		changed(t, "discovery off there", func(f *diagnosis.Facts) { f.Peer.Known = &api.Peer{State: 1<<1 | 1<<4} }, name, "off there", diagnosis.DiscoveryOffPeer),
		changed(t, "discovery off here", func(f *diagnosis.Facts) {
			f.Node.Globals.Values["discovery"], f.Peer.Ping.MultiRail = 0, true
			f.Peer.Ping.NIDs = append(f.Peer.Ping.NIDs, nid(t, "10.0.1.2@tcp1"))
		}, name, "has 2 NIDs", diagnosis.DiscoveryOffHere),
		changed(t, "rail", func(f *diagnosis.Facts) {
			f.Peer.Rails = []api.PingResult{{Target: "10.0.1.2@tcp1", Error: &api.Fault{Text: "timed out"}}}
		}, "10.0.1.2@tcp1", "timed out", diagnosis.RailSilent),
		changed(t, "two hosts", func(f *diagnosis.Facts) {
			c := diagnosis.Claim{Interface: "eth0", Address: netip.MustParseAddr("10.0.0.2"), Hardware: "02:00:00:00:00:02"}
			f.Peer.Claims = []diagnosis.Claim{c, {Interface: "eth0", Address: c.Address, Hardware: "02:00:00:00:00:09"}}
		}, name, "10.0.0.2 on eth0 has the hardware addresses 02:00:00:00:00:02 and 02:00:00:00:00:09", diagnosis.HostTwice),
		changed(t, "two interfaces of one host", oneHost, "", ""),
		changed(t, "a host with two interfaces, and another one", func(f *diagnosis.Facts) {
			oneHost(f)
			f.Peer.Claims = append(f.Peer.Claims, diagnosis.Claim{Hardware: "02:00:00:00:00:09"})
		}, name, "has the hardware addresses 02:00:00:00:00:02 and 02:00:00:00:00:03 and 02:00:00:00:00:09", diagnosis.HostTwice),
		changed(t, "an avoided net", func(f *diagnosis.Facts) { f.Peer.Traffic = traffic("peer net health") }, name,
			"messages use tcp, because tcp1 has peer net health 900, and tcp has 1000", diagnosis.NetAvoided),
		changed(t, "a net whose turn is later", func(f *diagnosis.Facts) { f.Peer.Traffic = traffic("peer net turn") }, "", ""),
		changed(t, "waiting for credits", func(f *diagnosis.Facts) { peerNI(f).Credits = api.Credits{Max: 8, Available: -5} }, name, "5 messages wait; it has 8 credits", diagnosis.CreditsExhausted),
		changed(t, "another node", func(f *diagnosis.Facts) { f.Peer.Ping.NIDs = []lnet.NID{nid(t, "10.0.0.3@tcp")} }, name, "it reports 10.0.0.3@tcp", diagnosis.NIDAbsent),
	}
}

func routeStories(t *testing.T) []story {
	route := func(f *diagnosis.Facts) *api.Route { return &f.Node.Routes[0] }
	const through = "tcp9 through " + "10.0.0.9@tcp"
	return []story{
		changed(t, "unreachable net", func(f *diagnosis.Facts) {
			route(f).Up = false
			f.Node.Peers[0].NIs[0].Trouble = "not answering"
		}, "tcp9", "no gateway is up: 10.0.0.9@tcp", diagnosis.NetUnreachable),
		changed(t, "one of two routes", func(f *diagnosis.Facts) {
			f.Node.Routes = append(f.Node.Routes, api.Route{Net: route(f).Net, Gateway: nid(t, "10.0.0.8@tcp"), Hops: 1})
		}, "tcp9 through 10.0.0.8@tcp", "down", diagnosis.GatewayDown),
		changed(t, "does not route", func(f *diagnosis.Facts) { f.Node.Peers[0].State = 1 << 4 }, through, "routing is off", diagnosis.NotARouter),
		changed(t, "not on the net", func(f *diagnosis.Facts) { route(f).SingleHop = false }, through, "no NI on tcp9", diagnosis.GatewayNoNI),
		changed(t, "asymmetric", func(f *diagnosis.Facts) { answeredFrom(t, f, "10.0.0.8@tcp") }, "10.0.0.2@tcp",
			"through 10.0.0.9@tcp, and the answer came from 10.0.0.8@tcp", diagnosis.Asymmetric),
		changed(t, "symmetric", func(f *diagnosis.Facts) { answeredFrom(t, f, gateway) }, "", ""),
		changed(t, "another NID of the gateway", func(f *diagnosis.Facts) {
			answeredFrom(t, f, "10.0.1.9@tcp1")
			g := &f.Node.Peers[0]
			g.NIs = append(g.NIs, api.PeerNI{NID: nid(t, "10.0.1.9@tcp1"), Health: g.NIs[0].Health})
		}, "", ""),
		changed(t, "two hops", func(f *diagnosis.Facts) { route(f).SingleHop, route(f).Hops = false, 2 }, "", ""),
		changed(t, "buffers", func(f *diagnosis.Facts) {
			f.Node.Routing = api.Routing{State: api.RoutingEnabled, CPTs: []api.Pools{{Large: api.Pool{Buffers: 4, Credits: -3}}}}
		}, "large buffers of CPT 0", "3 messages wait; there are 4 buffers", diagnosis.BuffersExhausted, diagnosis.RouterOneNet),
		changed(t, "stuck program", func(f *diagnosis.Facts) {
			f.Node.Clients.Clients = []api.ClientInfo{{ID: 7, PID: 99, Program: "app", TMs: []api.ClientTM{{Kept: 5, Entries: 64, Waiting: 64}}}}
		}, "client 7 (app, pid 99)", "keeps 5 more", diagnosis.ClientStuck),
		changed(t, "no proxy", func(f *diagnosis.Facts) {
			f.Node.Clients.Unserved = []api.UnservedNI{{NI: "mpi0", Reason: "none is attached"}}
		}, "mpi0", "none is attached", diagnosis.NoProxy),
	}
}

// If many peers do not answer, the findings are few, and say how many there are.
func TestManyFindings(t *testing.T) {
	f := healthy(t)
	f.Node.Peers = nil
	for k := range 1000 {
		f.Node.Peers = append(f.Node.Peers, api.Peer{NIs: []api.PeerNI{{NID: nid(t, fmt.Sprintf("10.1.%d.%d@tcp", k/250, k%250+1)), Trouble: "link down"}}})
	}
	findings := diagnosis.Examine(f)
	if len(findings) != 8 || findings[0].Subject != "10.1.0.1@tcp" || findings[7].Subject != "993 more" {
		t.Errorf("%d findings: %+v", len(findings), findings)
	}
}

// oneHost adds a second interface to the host of the peer. Both answer for both addresses.
func oneHost(f *diagnosis.Facts) {
	for _, hardware := range []string{"02:00:00:00:00:02", "02:00:00:00:00:03"} {
		c := diagnosis.Claim{Interface: "eth0", Address: netip.MustParseAddr("10.0.0.2"), Hardware: hardware}
		f.Peer.Claims = append(f.Peer.Claims, c)
		c.Address = netip.MustParseAddr("10.0.0.3")
		f.Peer.Aliases = append(f.Peer.Aliases, c)
	}
}
