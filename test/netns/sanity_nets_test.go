package netns

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// lnetd stays in the network namespace in which it was started, wherever its clients are. Without
// configured nets it uses the only interface there.
//
// sanity-lnet 5 (200), 5 (203)
func TestSanityNamespaces(t *testing.T) {
	s := newSanity(t)
	s.ok("lnet", "unconfigure")
	s.ok("lnet", "configure", "--all")
	if out := s.ok("net", "show", "--net", "tcp"); !strings.Contains(out, "nid: "+s.ip0+"@tcp\n") {
		t.Errorf("configure --all:\n%s", out)
	}
	before := s.backup()
	other := s.host.name + "x"
	namespace.New(t, other)
	namespace.IP(t, "-n", other, "link", "add", "fif", "type", "veth", "peer", "name", "peer")
	namespace.IP(t, "-n", other, "addr", "add", "10.1.2.3/31", "dev", "fif")
	namespace.IP(t, "-n", other, "link", "set", "fif", "up")
	out, err := exec.Command("ip", "netns", "exec", other, program(t, "lnetdctl"), "--control-socket", s.host.socket(),
		"net", "add", "--net", "tcp0", "--if", "fif").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fif") {
		t.Errorf("net add from within another namespace: %v\n%s", err, out)
	}
	s.equal("after what was refused", before, s.backup())
}

// sanity-lnet 5 (232)
func TestSanityTOS(t *testing.T) {
	s := newSanity(t)
	for _, tos := range []string{"", "-1", "104", "106"} {
		add := []string{"net", "add", "--net", "tcp", "--if", s.if0}
		want := "-1"
		if tos != "" {
			add, want = append(add, "--tos", tos), tos
		}
		s.ok(add...)
		if out := s.ok("net", "show", "-v", "1", "--net", "tcp"); !strings.Contains(out, "tos: "+want+"\n") {
			t.Errorf("--tos %s:\n%s", tos, out)
		}
		s.ok("net", "del", "--net", "tcp")
	}
	s.fails("net", "add", "--net", "tcp", "--if", s.if0, "--tos", "300")
	if out := s.ok("net", "show"); strings.Contains(out, "tcp") {
		t.Errorf("an NI in spite of that:\n%s", out)
	}
}

// NIs have separate values of the settings of an NI, and share those of the net.
//
// sanity-lnet 5 (170)
func TestSanityTunables(t *testing.T) {
	s := newSanity(t)
	nis := func(text string) (conns []any, timeouts []any) {
		t.Helper()
		s.fresh()
		s.ok("import", s.file("net:\n    - net type: tcp\n"+text))
		nets, _ := s.section(s.backup(), "net").([]any)
		for _, n := range nets {
			list, _ := n.(map[string]any)["local NI(s)"].([]any)
			for _, ni := range list {
				lnd, _ := ni.(map[string]any)["lnd tunables"].(map[string]any)
				common, _ := ni.(map[string]any)["tunables"].(map[string]any)
				conns, timeouts = append(conns, lnd["conns_per_peer"]), append(timeouts, common["peer_timeout"])
			}
		}
		return conns, timeouts
	}
	for _, c := range []struct {
		name, text      string
		conns, timeouts []any // nil: any
	}{
		{"lnd tunables alone", "      local NI(s):\n      - interfaces: {0: eth0}\n        lnd tunables: {conns_per_peer: 5}\n", []any{5}, nil},
		{"two NIs with their own", "      local NI(s):\n      - interfaces: {0: eth0}\n        lnd tunables: {conns_per_peer: 5}\n" +
			"      - interfaces: {0: eth1}\n        lnd tunables: {conns_per_peer: 3}\n", []any{5, 3}, nil},
		{"the second alone", "      local NI(s):\n      - interfaces: {0: eth0}\n      - interfaces: {0: eth1}\n        tunables: {peer_timeout: 181}\n" +
			"        lnd tunables: {conns_per_peer: 3}\n", []any{2, 3}, []any{180, 180}},
		{"the net's", "      tunables: {peer_timeout: 182}\n      lnd tunables: {conns_per_peer: 3}\n      local NI(s):\n" +
			"      - interfaces: {0: eth0}\n      - interfaces: {0: eth1}\n", []any{3, 3}, []any{182, 182}},
		{"different timeouts", "      local NI(s):\n      - interfaces: {0: eth0}\n        tunables: {peer_timeout: 183}\n" +
			"      - interfaces: {0: eth1}\n        tunables: {peer_timeout: 184}\n", nil, []any{183, 183}},
	} {
		conns, timeouts := nis(c.text)
		if diff := cmp.Diff(c.conns, conns); c.conns != nil && diff != "" {
			t.Errorf("%s: conns_per_peer -want +got:\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.timeouts, timeouts); c.timeouts != nil && diff != "" {
			t.Errorf("%s: peer_timeout -want +got:\n%s", c.name, diff)
		}
	}
}

// sanity-lnet 4 (100), 4 (101), 4 (102), 4 (111)
func TestSanityRoutes(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	base := s.backup()
	s.ok("route", "add", "--net", "tcp1", "--gateway", "10.213.0.[101-105]@tcp")
	saved := s.backup()
	routes, _ := s.section(saved, "route").([]any)
	peers, _ := s.section(saved, "peer").([]any)
	if len(routes) != 5 || len(peers) != 5 {
		t.Fatalf("%d routes, %d peers:\n%s", len(routes), len(peers), saved)
	}
	want := s.loaded("{net: tcp1, gateway: 10.213.0.101@tcp, hop: -1, priority: 0}")
	if diff := cmp.Diff(want, routes[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = s.loaded("{primary nid: 10.213.0.101@tcp, Multi-Rail: false, peer ni: [{nid: 10.213.0.101@tcp}]}")
	if diff := cmp.Diff(want, peers[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.fresh()
	s.ok("import", s.file(saved))
	s.equal("backup", saved, s.backup())
	s.ok("route", "del", "--net", "tcp1", "--gateway", "10.213.0.[101-105]@tcp")
	s.equal("routes", fmt.Sprint(s.section(base, "route")), fmt.Sprint(s.section(s.backup(), "route")))

	var many strings.Builder
	many.WriteString("route:\n")
	for n := 2; n <= 500; n++ {
		fmt.Fprintf(&many, "    - net: tcp1%d\n      gateway: 10.213.0.101@tcp\n", n)
	}
	s.ok("import", s.file(many.String()))
	if n := strings.Count(s.ok("route", "show"), " net: tcp1"); n != 499 {
		t.Errorf("%d routes of 499", n)
	}
}

// Several nets of a type share an interface. A net of a type without a driver is refused, and lnetd
// continues.
//
// sanity-lnet 11 (251), 11 (280)
func TestSanityNetsOfOneInterface(t *testing.T) {
	s := newSanity(t)
	for _, net := range []string{"tcp", "tcp1", "tcp10"} {
		s.ok("net", "add", "--net", net, "--if", s.if0)
		s.ok("ping", s.ip0+"@"+net)
	}
	before := s.backup()
	s.fails("net", "add", "--net", "o2ib", "--if", s.if0)
	s.fails("net", "add", "--net", "foo", "--if", s.if0)
	s.fails("import", s.file("net:\n    - net type: tcp2\n      interfaces: {0: eth0}\n    - net type: o2ib\n      interfaces: {0: eth0}\n"))
	s.equal("after what was refused", before, s.backup())
}

// The test values of the module parameter ip2nets are imported with import --modprobe.
//
// sanity-lnet 11 (202)
func TestSanityModuleStrings(t *testing.T) {
	s := newSanity(t)
	octets := func(ip string) []string { return strings.Split(ip, ".") }
	a, b := octets(s.ip0), octets(s.ip1)
	var both []string
	for k := range a {
		both = append(both, "["+a[k]+","+b[k]+"]")
	}
	for _, c := range []struct {
		rules string
		nids  []string // nil: refused
	}{
		{"tcp(eth0) " + s.ip0, []string{s.ip0 + "@tcp"}},
		{"tcp(eth0) " + s.ip0 + "; tcp2(eth1) " + s.ip1, []string{s.ip0 + "@tcp", s.ip1 + "@tcp2"}},
		{"tcp(eth0) " + s.ip0 + "; tcp(eth1) " + s.ip1, []string{s.ip0 + "@tcp", s.ip1 + "@tcp"}},
		{"tcp(eth0,eth1) " + strings.Join(both, "."), []string{s.ip0 + "@tcp", s.ip1 + "@tcp"}},
		{"tcp(eth7) " + s.ip0, nil},
		{"tcp(eth0) 192.0.2.1", nil},
	} {
		s.fresh()
		command := []string{"import", "--modprobe", s.file("options lnet ip2nets=\"" + c.rules + "\"\n")}
		if c.nids == nil {
			s.fails(command...)
		} else {
			s.ok(command...)
		}
		out := s.ok("net", "show")
		if strings.Count(out, "@tcp") != len(c.nids) {
			t.Errorf("%s: not %v:\n%s", c.rules, c.nids, out)
		}
		for _, nid := range c.nids {
			if !strings.Contains(out, "nid: "+nid+"\n") {
				t.Errorf("%s: no %s:\n%s", c.rules, nid, out)
			}
		}
	}
}
