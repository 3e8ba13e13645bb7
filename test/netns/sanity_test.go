package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// A sanity is a host for the cases of the reference's suite (sanity-lnet 0): lnetd with only lo,
// and two interfaces.
type sanity struct {
	*daemon
	*testing.T
	host               *host
	if0, if1, ip0, ip1 string
}

func newSanity(t *testing.T, configuration ...string) *sanity {
	t.Helper()
	t.Parallel()
	h := newWorld(t, 2).host(t, 0, 1)
	s := &sanity{nil, t, h, "eth0", "eth1", h.addr(0), h.addr(1)}
	s.daemon = h.run(t, nil, nil, nil, program(t, "lnetd"), "--control-socket", h.socket(), "--config", s.file(strings.Join(configuration, "")))
	s.fresh()
	return s
}

// fresh removes everything except lo.
func (s *sanity) fresh() {
	s.Helper()
	s.ok("lnet", "unconfigure")
	s.ok("lnet", "configure")
}

func (s *sanity) ok(args ...string) string {
	s.Helper()
	out, err := s.ctl(args...)
	if err != nil {
		s.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// fails runs a command that must fail, and returns its output.
func (s *sanity) fails(args ...string) string {
	s.Helper()
	out, err := s.ctl(args...)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() < 0 {
		s.Errorf("%v: should fail: %v\n%s", args, err, out)
	}
	return out
}

// ctl runs lnetdctl and returns its output.
func (s *sanity) ctl(args ...string) (string, error) {
	c := exec.Command(program(s.T, "lnetdctl"), append([]string{"--control-socket", s.host.socket()}, args...)...)
	b, err := c.CombinedOutput()
	return string(b), err
}

// file writes a file for a command and returns its path.
func (s *sanity) file(text string) string {
	s.Helper()
	f, err := os.CreateTemp(s.host.dir, "*.yaml")
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		s.Fatal(err)
	}
	return f.Name()
}

// backup returns the output of "export --backup".
func (s *sanity) backup() string {
	s.Helper()
	name := filepath.Join(s.host.dir, "backup")
	s.ok("export", "--backup", name)
	b, err := os.ReadFile(name)
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}

func (s *sanity) loaded(text string) any {
	s.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		s.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// equal compares two documents as structures.
func (s *sanity) equal(what, want, got string) {
	s.Helper()
	if diff := cmp.Diff(s.loaded(want), s.loaded(got)); diff != "" {
		s.Errorf("%s: -want +got:\n%s", what, diff)
	}
}

// section returns a section of a document.
func (s *sanity) section(text, key string) any {
	s.Helper()
	m, _ := s.loaded(text).(map[string]any)
	return m[key]
}

// sanity-lnet 1 case
func TestSanityBackup(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	s.ok("peer", "add", "--prim_nid", "10.9.9.9@tcp", "--nid", "10.9.9.[10-11]@tcp")
	saved := s.backup()
	s.fresh()
	s.ok("import", s.file(saved))
	s.equal("backup", saved, s.backup())
}

// Peers are added by import and deleted by import --del.
//
// sanity-lnet 3 (14), 3 (15), 3 (17)
func TestSanityPeersByImport(t *testing.T) {
	s := newSanity(t)
	base := s.backup()
	peers := func(n int, net string, more int) string {
		var b strings.Builder
		b.WriteString("peer:\n")
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&b, "    - primary nid: %[1]d.%[1]d.%[1]d.%[1]d@%[2]s\n      Multi-Rail: True\n      peer ni:\n        - nid: %[1]d.%[1]d.%[1]d.%[1]d@%[2]s\n", i, net)
			for k := 1; k <= more; k++ {
				fmt.Fprintf(&b, "        - nid: %d.9.9.%d@%s\n", i, k, net)
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		n    int
		net  string
		more int
	}{{1, "tcp", 0}, {5, "o2ib", 0}, {5, "o2ib", 7}} {
		file := s.file(peers(c.n, c.net, c.more))
		s.ok("import", file)
		list, _ := s.section(s.backup(), "peer").([]any)
		if len(list) != c.n {
			t.Errorf("%+v: %d peers:\n%s", c, len(list), s.backup())
		}
		for _, p := range list {
			if nids, _ := p.(map[string]any)["peer ni"].([]any); len(nids) != 1+c.more {
				t.Errorf("%+v: a peer has %d NIDs", c, len(nids))
			}
		}
		s.ok("import", "--del", file)
		s.equal("after --del", base, s.backup())
	}
}

// sanity-lnet 3 (18a)
func TestSanityNIDsByImport(t *testing.T) {
	s := newSanity(t)
	s.ok("peer", "add", "--prim_nid", "1.1.1.1@tcp", "--nid", "2.2.2.2@tcp,4.4.4.4@tcp,3.3.3.3@o2ib,5@gni")
	s.ok("import", "--del", s.file(`peer:
    - primary nid: 1.1.1.1@tcp
      Multi-Rail: True
      peer ni:
        - nid: 2.2.2.2@tcp
        - nid: 3.3.3.3@o2ib
        - nid: 5@gni
`))
	want := s.loaded("[{primary nid: 1.1.1.1@tcp, Multi-Rail: true, peer ni: [{nid: 1.1.1.1@tcp}, {nid: 4.4.4.4@tcp}]}]")
	if diff := cmp.Diff(want, s.section(s.backup(), "peer")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// sanity-lnet 2 (27)
func TestSanityWrongFiles(t *testing.T) {
	s := newSanity(t)
	base := s.backup()
	for _, c := range []struct{ file, says string }{
		{"nett:\n    - net type: tcp\n", "invalid key"},
		{strings.Replace(base, "discovery: 1", "discovery:", 1), "no value"},
		{strings.Replace(base, "discovery: 1", "discovery: foo", 1), "invalid value"},
	} {
		if out := s.fails("import", s.file(c.file)); !strings.Contains(out, c.says) {
			t.Errorf("%q does not stand in\n%s", c.says, out)
		}
	}
	s.equal("after what was refused", base, s.backup())
}

// sanity-lnet 4 (50)
func TestSanityRoutingByImport(t *testing.T) {
	s := newSanity(t, "lnetd: {alive_router_check_interval: 1, router_ping_timeout: 1}\nbuffers: {tiny: 16, small: 8, large: 4}\n")
	shows := func(state string) {
		t.Helper()
		daemontest.Within(t, noticePatience, state, func() error {
			if out := s.ok("routing", "show"); !strings.Contains(out, state) {
				return errors.New(out)
			}
			return nil
		})
	}
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	s.ok("import", s.file("routing: {enable: 1}\n"))
	shows("enable: 1")
	s.ok("import", s.file("routing: {enable: 0}\n"))
	shows("enable: 0")
	s.ok("import", s.file("routing: {enable: 1}\nbuffers: {tiny: 18, small: 10, large: 6}\n"))
	want := s.loaded("{tiny: 18, small: 10, large: 6}")
	if diff := cmp.Diff(want, s.section(s.backup(), "buffers")); diff != "" {
		t.Errorf("buffers: -want +got:\n%s", diff)
	}
}

// One of two interfaces is removed from the net. The other settings of the net stay.
//
// sanity-lnet 5 (107), 5 (108), 5 (301), 5 (302)
func TestSanitySecondInterface(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	before := s.ok("net", "show", "--net", "tcp")
	s.ok("net", "add", "--net", "tcp", "--if", s.if1)
	more := fmt.Sprintf("      -     nid: %s@tcp\n            status: up\n            interfaces:\n                  0: %s\n", s.ip1, s.if1)
	s.equal("net show", before+more, s.ok("net", "show", "--net", "tcp"))
	s.fails("net", "add", "--net", "tcp", "--if", s.if1)
	s.ok("net", "del", "--net", "tcp", "--if", s.if1)
	s.equal("net show", before, s.ok("net", "show", "--net", "tcp"))
	s.ok("ping", s.ip0+"@tcp")
	s.ok("debug", "peer", "--nid", s.ip0+"@tcp")
	s.ok("net", "del", "--net", "tcp")
	s.fails("net", "del", "--net", "tcp")
}

// sanity-lnet 5 (109)
func TestSanityAlias(t *testing.T) {
	s := newSanity(t)
	namespace.IP(t, "-n", s.host.name, "addr", "add", "10.213.200.1/24", "dev", s.if0, "label", s.if0+":0")
	for _, names := range [][2]string{{s.if0 + ":0", s.if0}, {s.if0, s.if0 + ":0"}} {
		for _, name := range names {
			s.ok("net", "add", "--net", "tcp", "--if", name)
		}
		out := s.ok("net", "show", "--net", "tcp")
		for _, nid := range []string{s.ip0 + "@tcp", "10.213.200.1@tcp"} {
			if !strings.Contains(out, "nid: "+nid+"\n") {
				t.Errorf("%v: no %s in\n%s", names, nid, out)
			}
		}
		for _, name := range names {
			s.ok("net", "del", "--net", "tcp", "--if", name)
		}
	}
}

// sanity-lnet 5 (199)
func TestSanityIP2NetOfANetThatIsThere(t *testing.T) {
	s := newSanity(t)
	for _, add := range [][]string{{"--net", "tcp", "--if", s.if0}, {"--ip2net", "tcp " + s.ip0}} {
		s.ok(append([]string{"net", "add"}, add...)...)
		before := s.backup()
		for _, rules := range []string{"tcp " + s.ip0, "tcp(eth0) " + s.ip0} {
			s.fails("net", "add", "--ip2net", rules)
		}
		s.equal("after what was refused", before, s.backup())
		s.ok("net", "del", "--net", "tcp")
	}
}

// sanity-lnet 5 (230)
func TestSanityConnsPerPeer(t *testing.T) {
	s := newSanity(t)
	shows := func(n int) {
		t.Helper()
		if out := s.ok("net", "show", "-v", "1", "--net", "tcp"); !strings.Contains(out, fmt.Sprintf("conns_per_peer: %d\n", n)) {
			t.Errorf("conns_per_peer is not %d:\n%s", n, out)
		}
		s.ok("ping", s.ip0+"@tcp")
	}
	for n := 4; n <= 15; n++ {
		value := fmt.Sprint(n)
		if n%2 == 0 {
			s.ok("net", "add", "--net", "tcp", "--if", s.if0)
			s.ok("net", "set", "--all", "--conns-per-peer", value)
		} else {
			s.ok("net", "add", "--net", "tcp", "--if", s.if0, "--conns-per-peer", value)
		}
		shows(n)
		s.fails("net", "set", "--all", "--conns-per-peer", "128")
		s.ok("net", "set", "--all", "--conns-per-peer", "-1")
		shows(n)
		s.ok("net", "del", "--net", "tcp")
	}
	for _, bad := range []string{"128", "1000000000000000000000000", "foo"} {
		s.fails("net", "add", "--net", "tcp", "--if", s.if0, "--conns-per-peer", bad)
	}
	s.fails("import", s.file("net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n    lnd tunables: {conns_per_peer: 200}\n"))
	if out := s.ok("net", "show"); strings.Contains(out, "tcp") {
		t.Errorf("an NI in spite of that:\n%s", out)
	}
}

// sanity-lnet 5 (241)
func TestSanityLNDTimeout(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0+","+s.if1)
	s.ok("net", "set", "--net", "tcp", "--lnd-timeout", "77")
	if out := s.ok("net", "show", "-v", "1", "--net", "tcp"); strings.Count(out, "timeout: 77\n") != 2 {
		t.Errorf("not for both NIs:\n%s", out)
	}
	s.ok("net", "set", "--net", "tcp", "--lnd-timeout", "0")
	if out := s.ok("net", "show", "-v", "1", "--net", "tcp"); strings.Count(out, "timeout: 49\n") != 2 {
		t.Errorf("not the global one:\n%s", out)
	}
}

// sanity-lnet 5 (265)
func TestSanityCPTsThatAreWrong(t *testing.T) {
	s := newSanity(t)
	for _, cpt := range []string{`"[1-0]"`, `[1-0]`, `"[]"`, `[]`} {
		s.fails("import", s.file("net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n    CPT: "+cpt+"\n"))
	}
	if out := s.ok("net", "show"); strings.Contains(out, "tcp") {
		t.Errorf("an NI in spite of that:\n%s", out)
	}
}

// sanity-lnet 5 (350)
func TestSanityErrands(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	own := s.ip0 + "@tcp"
	s.ok("import", "--exec", s.file("ping:\n    nids:\n        0: "+own+"\n"))
	s.ok("import", "-e", s.file("discover:\n    nids:\n        0: "+own+"\n"))
	// The node itself is not in its list of peers (decisions 97), but is shown on request.
	if out := s.ok("peer", "show"); strings.Contains(out, own) {
		t.Errorf("peer show: %s", out)
	}
	if got := fmt.Sprint(s.section(s.ok("peer", "show", "--nid", own), "peer")); got != "[map[Multi-Rail:true peer ni:[map[nid:"+own+" state:NA]] primary nid:"+own+"]]" {
		t.Errorf("peer show --nid: %s", got)
	}
}

// sanity-lnet 5 (450)
func TestSanityTwoInterfacesInOneItem(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	s.ok("net", "add", "--net", "tcp", "--if", s.if1)
	saved := s.backup()
	s.fresh()
	file := s.file("net:\n    - net type: tcp\n      local NI(s):\n        - interfaces:\n              0: eth0\n              1: eth1\n")
	s.ok("import", file)
	s.equal("backup", saved, s.backup())
	s.ok("import", "--del", file)
	if out := s.ok("net", "show"); strings.Contains(out, "tcp") {
		t.Errorf("still there:\n%s", out)
	}
}

// sanity-lnet 9 (404)
func TestSanityPolicies(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	s.ok("net", "add", "--net", "tcp2", "--if", s.if0)
	s.ok("udsp", "add", "--src", "tcp", "--priority", "1")
	s.ok("udsp", "add", "--dst", "tcp2", "--priority", "1")
	saved := s.backup()
	s.fresh()
	s.ok("import", s.file(saved))
	s.equal("backup", saved, s.backup())
	s.ok("discover", s.ip0+"@tcp")
	for _, c := range [][]string{{"net", "show", "-v", "5", "--net", "tcp"}, {"peer", "show", "-v", "5", "--nid", s.ip0 + "@tcp"}} {
		if out := s.ok(c...); !strings.Contains(out, "net priority: 1\n") {
			t.Errorf("%v: no priority:\n%s", c, out)
		}
	}
}
