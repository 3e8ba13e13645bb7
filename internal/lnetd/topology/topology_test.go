package topology

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

func nid(t testing.TB, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ni(t testing.TB, name, device, status, reason string, health int) api.NI {
	t.Helper()
	n := api.NI{NID: nid(t, name), Status: status, Reason: reason, Health: api.HealthStats{Value: health}}
	if device != "" {
		n.Interfaces = []string{device}
	}
	return n
}

// rail returns a NID of a peer, over which n messages have been sent.
func rail(t testing.TB, name, state, trouble string, health int, n uint64) api.PeerNI {
	t.Helper()
	return api.PeerNI{
		NID: nid(t, name), State: state, Trouble: trouble,
		Health: api.PeerHealthStats{Value: health}, Statistics: api.Statistics{Sent: n},
	}
}

func peer(primary api.PeerNI, more ...api.PeerNI) *api.Peer {
	return &api.Peer{Primary: primary.NID, NIs: append([]api.PeerNI{primary}, more...)}
}

// site returns a picture with everything that a picture can have, with at most most peers.
func site(t testing.TB, most int) *Picture {
	t.Helper()
	tcp, tcp1, tcp9 := lnet.MakeNet(lnet.TypeTCP, 0), lnet.MakeNet(lnet.TypeTCP, 1), lnet.MakeNet(lnet.TypeTCP, 9)
	nets := api.Nets{
		Nets: []api.Net{
			{Net: lnet.LoopbackNID.Net(), NIs: []api.NI{{NID: lnet.LoopbackNID, Status: "up"}}},
			{Net: tcp, NIs: []api.NI{ni(t, "10.0.0.1@tcp", "eth0", "up", "", 1000), ni(t, "10.0.0.2@tcp", "eth1", "up", "", 900)}},
			{Net: tcp1, NIs: []api.NI{ni(t, "10.0.1.1@tcp1", "eth2", "down", "link down", 1000)}},
		},
		Waiting: []api.WaitingNI{{Net: lnet.MakeNet(lnet.TypeTCP, 2), Interface: "eth3", Cause: "no such interface"}},
	}
	gateway := peer(rail(t, "10.0.0.7@tcp", "up", "", 1000, 1))
	gateway.Gateway = true
	routes := []api.Route{{Net: tcp9, Gateway: gateway.Primary, Up: true, Hops: 1}, {Net: tcp9, Gateway: nid(t, "10.0.0.8@tcp"), Priority: 2}}
	b := New(nets, routes, api.Routing{State: api.RoutingEnabled}, most)
	b.Add(peer(rail(t, "10.0.0.20@tcp", "NA", "", 1000, 5)))
	b.Add(peer(rail(t, "10.0.0.21@tcp", "NA", "", 1000, 50), rail(t, "10.0.1.21@tcp1", "NA", "not answering since 2026-01-02T03:04:05Z", 1000, 0)))
	b.Add(peer(rail(t, "10.0.0.22@tcp", "NA", "", 0, 500)))
	b.Add(gateway)
	b.Add(peer(rail(t, "10.9.0.1@tcp9", "NA", "", 1000, 7)))
	return b.Picture()
}

func TestTree(t *testing.T) {
	var got strings.Builder
	if err := site(t, 4).WriteTree(&got); err != nil {
		t.Fatal(err)
	}
	want := `10.0.0.1@tcp (this node), router
├─ net tcp: degraded
│  ├─ NI 10.0.0.1@tcp (eth0): ok
│  └─ NI 10.0.0.2@tcp (eth1): degraded, health 900 of 1000
├─ net tcp1: down
│  └─ NI 10.0.1.1@tcp1 (eth2): down, link down
├─ net tcp2: waiting
│  └─ NI tcp2(eth3): waiting, no such interface
├─ 5 peers: 3 ok, 1 degraded, 1 down
│  ├─ 10.0.0.22@tcp: down, health 0 of 1000
│  ├─ 10.0.0.21@tcp: degraded, 1 of 2 NIDs not ok
│  │  ├─ 10.0.0.21@tcp: ok
│  │  └─ 10.0.1.21@tcp1: down, not answering since 2026-01-02T03:04:05Z
│  ├─ 10.0.0.7@tcp (gateway): ok
│  ├─ 10.9.0.1@tcp9: ok
│  └─ and 1 other: 1 ok
└─ remote net tcp9: degraded
   ├─ through 10.0.0.7@tcp (hops 1): up
   └─ through 10.0.0.8@tcp (priority 2): down
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyTree(t *testing.T) {
	var got strings.Builder
	if err := New(api.Nets{}, nil, api.Routing{}, 5).Picture().WriteTree(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("this node\n└─ no peers\n", got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMermaid(t *testing.T) {
	var got strings.Builder
	if err := site(t, 2).WriteMermaid(&got); err != nil {
		t.Fatal(err)
	}
	want := `flowchart LR
    subgraph node["10.0.0.1@tcp (this node), router"]
    ni0_0["10.0.0.1@tcp (eth0)<br/>ok"]:::ok
    ni0_1["10.0.0.2@tcp (eth1)<br/>degraded, health 900 of 1000"]:::degraded
    ni1_0["10.0.1.1@tcp1 (eth2)<br/>down, link down"]:::down
    ni2_0["tcp2(eth3)<br/>waiting, no such interface"]:::waiting
    end
    net0(["net tcp<br/>degraded"]):::degraded
    ni0_0 --- net0
    ni0_1 -.- net0
    net1(["net tcp1<br/>down"]):::down
    ni1_0 --x net1
    net2(["net tcp2<br/>waiting"]):::waiting
    ni2_0 -.- net2
    remote0(["remote net tcp9<br/>1 of 2 routes up"]):::degraded
    peer0("10.0.0.22@tcp<br/>down, health 0 of 1000"):::down
    net0 --x peer0
    peer1("10.0.0.21@tcp<br/>degraded, 1 of 2 NIDs not ok"):::degraded
    net0 --- peer1
    net1 --x peer1
    others("and 3 others<br/>3 ok"):::ok
    classDef ok stroke:#1a7f37,stroke-width:2px
    classDef waiting stroke:#0969da,stroke-width:2px
    classDef degraded stroke:#9a6700,stroke-width:2px
    classDef down stroke:#cf222e,stroke-width:2px
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// wellFormed checks that a text is XML, and returns the number of elements by name and the text in them.
func wellFormed(t *testing.T, text string) (elements map[string]int, words string) {
	t.Helper()
	elements = map[string]int{}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, words
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			words += string(token)
		}
	}
}

// The SVG is well-formed, has a title and a description, and shows each part.
func TestSVG(t *testing.T) {
	for name, write := range map[string]func(*Picture, io.Writer) error{"element": (*Picture).WriteSVG, "file": (*Picture).WriteSVGFile} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			if err := write(site(t, 4), &got); err != nil {
				t.Fatal(err)
			}
			elements, words := wellFormed(t, got.String())
			for _, want := range []string{
				"LNet of 10.0.0.1@tcp (this node), router", "2 of 4 NIs up. 5 peers: 3 ok, 1 degraded, 1 down. Remote net tcp9: degraded.",
				"10.0.0.22@tcp", "and 1 other", "1 of 2 routes up", "gateway, ok", "tcp2(eth3)",
			} {
				if !strings.Contains(words, want) {
					t.Errorf("no %q in %s", want, words)
				}
			}
			// 4 NIs, 4 nets, 4 peers, the others, and the ground.
			if elements["rect"] != 14 {
				t.Errorf("%d boxes", elements["rect"])
			}
			if (elements["style"] == 1) != (name == "file") {
				t.Errorf("%d style sheets", elements["style"])
			}
		})
	}
}

// However many peers, rails, nets and routes there are, the picture and what the Builder keeps are bounded. Peers with
// problems come first.
func TestBounds(t *testing.T) {
	var routes []api.Route
	for net := range 100 {
		for k := range 20 {
			routes = append(routes, api.Route{Net: lnet.MakeNet(lnet.TypeTCP, uint16(100+net)), Gateway: nid(t, fmt.Sprintf("10.1.0.%d@tcp", k+1)), Up: true})
		}
	}
	b := New(api.Nets{}, routes, api.Routing{}, 10)
	for k := range 10000 {
		n := rail(t, fmt.Sprintf("10.2.%d.%d@tcp", k/250, k%250), "NA", "", 1000, uint64(k))
		if k == 5000 {
			n.State = "down"
		}
		p := peer(n)
		for len(p.NIs) < 41 && k == 5000 {
			p.NIs = append(p.NIs, n)
		}
		b.Add(p)
	}
	p := b.Picture()
	if len(p.Peers) != 10 || p.Peers[0].State != Down || p.Peers[1].Messages != 9999 || len(p.Peers[0].Rails) != railsMost || p.Peers[0].OtherRails != 41-railsMost {
		t.Errorf("%+v", p.Peers)
	}
	if want := (Counts{All: 9990, OK: 9990}); p.OtherPeers != want {
		t.Errorf("%+v", p.OtherPeers)
	}
	if len(p.RemoteNets) != remoteNetsMost || p.OtherRemoteNets != 100-remoteNetsMost || len(p.RemoteNets[0].Routes) != routesMost || p.RemoteNets[0].OtherRoutes != 20-routesMost {
		t.Errorf("%d, %d, %+v", len(p.RemoteNets), p.OtherRemoteNets, p.RemoteNets[0])
	}
	for name, write := range map[string]func(*Picture, io.Writer) error{"tree": (*Picture).WriteTree, "mermaid": (*Picture).WriteMermaid, "svg": (*Picture).WriteSVG} {
		var got strings.Builder
		if err := write(p, &got); err != nil || !strings.Contains(got.String(), "9,990 others") || got.Len() > 100_000 {
			t.Errorf("%s: %v, %d bytes", name, err, got.Len())
		}
	}
}

// Of many NIs the picture shows those with problems and the first ones, without nets of which none is left. The state of
// a net counts all of its NIs.
func TestManyNIs(t *testing.T) {
	var nets api.Nets
	for net := range 100 {
		one := api.Net{Net: lnet.MakeNet(lnet.TypeTCP, uint16(net))}
		for k := range 30 {
			n := ni(t, fmt.Sprintf("10.0.%d.%d@%s", net, k, one.Net), "eth0", "up", "", 1000)
			if net == 99 && k == 20 {
				n.Status = "down"
			}
			one.NIs = append(one.NIs, n)
		}
		nets.Nets = append(nets.Nets, one)
	}
	p := New(nets, nil, api.Routing{}, 3).Picture()
	if all := p.AllNIs(); all != (NICounts{All: 3000, Up: 2999}) || p.OtherNIs != (NICounts{All: 3000 - nisMost, Up: 3000 - nisMost}) {
		t.Errorf("%+v, others %+v", all, p.OtherNIs)
	}
	if len(p.Nets) != 4 || len(p.Nets[0].NIs) != 30 || len(p.Nets[3].NIs) != 1 || p.Nets[3].NIs[0].State != Down || p.Nets[3].State != Degraded {
		t.Errorf("%+v", p.Nets)
	}
	for name, write := range map[string]func(*Picture, io.Writer) error{"tree": (*Picture).WriteTree, "mermaid": (*Picture).WriteMermaid, "svg": (*Picture).WriteSVG} {
		var got strings.Builder
		if err := write(p, &got); err != nil || !strings.Contains(got.String(), "2,936 other") || got.Len() > 50_000 {
			t.Errorf("%s: %v, %d bytes", name, err, got.Len())
		}
	}
}

// Without room for peers, the picture has their numbers.
func TestNoPeersShown(t *testing.T) {
	p := site(t, 0)
	if len(p.Peers) != 0 || p.OtherPeers != (Counts{All: 5, OK: 3, Degraded: 1, Down: 1}) {
		t.Errorf("%+v", p)
	}
}

// Texts from outside are escaped, and have no control characters.
func TestHostileTexts(t *testing.T) {
	const evil = "<script>alert('1')</script>\"]; click ni0 \x1b[31m\n\u202e\u200b\uffff\ufffeevil&#60;"
	nets := api.Nets{Nets: []api.Net{{Net: lnet.MakeNet(lnet.TypeTCP, 0), NIs: []api.NI{ni(t, "10.0.0.1@tcp", evil, "down", evil+strings.Repeat("x", 1000), 1000)}}}}
	b := New(nets, nil, api.Routing{}, 3)
	b.Add(peer(rail(t, "10.0.0.2@tcp", "NA", evil, 1000, 0)))
	p := b.Picture()
	for name, write := range map[string]func(*Picture, io.Writer) error{
		"tree": (*Picture).WriteTree, "mermaid": (*Picture).WriteMermaid, "svg": (*Picture).WriteSVG, "file": (*Picture).WriteSVGFile,
	} {
		var b strings.Builder
		if err := write(p, &b); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if strings.ContainsAny(got, "\x1b\u202e\u200b\uffff\ufffe") || len(got) > 20_000 {
			t.Errorf("%s: %q", name, got)
		}
		if name != "tree" && strings.Contains(got, "<script") {
			t.Errorf("%s: %s", name, got)
		}
		switch name {
		case "mermaid":
			if n := strings.Count(got, `"`); n%2 != 0 || strings.Contains(got, `"]; click`) {
				t.Errorf("a text ends its quotes: %s", got)
			}
		case "svg", "file":
			wellFormed(t, got)
		}
	}
}

// The JSON form has lists that are empty, and not null, and names of states.
func TestJSON(t *testing.T) {
	got, err := json.Marshal(New(api.Nets{}, nil, api.Routing{}, 1).Picture())
	want := `{"router":false,"nets":[],"other_nis":{"all":0,"up":0},"peers":[],"other_peers":{"all":0,"ok":0,"degraded":0,"down":0},"remote_nets":[],"other_remote_nets":0}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// A peer counts as down if it cannot be reached over the nets of the node, whatever its other NIDs are.
func TestStateOfPeer(t *testing.T) {
	nets := api.Nets{Nets: []api.Net{{Net: lnet.MakeNet(lnet.TypeTCP, 0), NIs: []api.NI{ni(t, "10.0.0.1@tcp", "", "up", "", 1000)}}}}
	for _, tt := range []struct {
		name  string
		rails []api.PeerNI
		want  State
	}{
		{"all is well", []api.PeerNI{rail(t, "10.0.0.2@tcp", "up", "", 1000, 0)}, OK},
		{"one of two", []api.PeerNI{rail(t, "10.0.0.2@tcp", "up", "", 1000, 0), rail(t, "10.0.0.3@tcp", "down", "", 1000, 0)}, Degraded},
		{"a failure", []api.PeerNI{rail(t, "10.0.0.2@tcp", "NA", "connection refused", 1000, 0)}, Down},
		{"a failure of one of two", []api.PeerNI{rail(t, "10.0.0.2@tcp", "NA", "connection refused", 1000, 0), rail(t, "10.0.0.3@tcp", "NA", "", 1000, 0)}, Degraded},
		{"all rails", []api.PeerNI{rail(t, "10.0.0.2@tcp", "down", "", 1000, 0)}, Down},
		{"down here, well elsewhere", []api.PeerNI{rail(t, "10.0.0.2@tcp", "down", "", 1000, 0), rail(t, "10.0.0.2@tcp5", "NA", "", 1000, 0)}, Down},
		{"well here", []api.PeerNI{rail(t, "10.0.0.2@tcp", "up", "", 1000, 0), rail(t, "10.0.0.2@tcp5", "down", "", 1000, 0)}, OK},
		{"only elsewhere", []api.PeerNI{rail(t, "10.0.0.2@tcp5", "NA", "", 900, 0)}, Degraded},
		{"no NIDs", nil, OK},
	} {
		b := New(nets, nil, api.Routing{}, 1)
		b.Add(&api.Peer{Primary: nid(t, "10.0.0.2@tcp"), NIs: tt.rails})
		if got := b.Picture().Peers[0].State; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 9990: "9,990", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
