package netns

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/modparam"
	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// Rules for a site have the same result as a manual configuration, or none.
//
// sanity-lnet 6 (150), 6 (151), 6 (153), 6 (155), 6 (156), 6 (158), 6 (159), 6 (161)
func TestSanityIP2Nets(t *testing.T) {
	s := newSanity(t)
	namespace.IP(t, "-n", s.host.name, "addr", "add", "2001:db8:0:f101::1/64", "dev", s.if0, "nodad")
	rule := func(net, ifs string, ranges ...string) string {
		b := fmt.Sprintf("    - net-spec: %s\n", net)
		if ifs != "" {
			b += "      interfaces:\n"
			for k, name := range strings.Split(ifs, ",") {
				b += fmt.Sprintf("          %d: %s\n", k, name)
			}
		}
		b += "      ip-range:\n"
		for k, r := range ranges {
			b += fmt.Sprintf("          %d: %q\n", k, r)
		}
		return b
	}
	net, host, _ := strings.Cut(s.ip0, ".213.0.")
	net += ".213.0."
	one := []string{"net", "add", "--net", "tcp", "--if", s.if0}
	both := [][]string{one, {"net", "add", "--net", "tcp", "--if", s.if1}}
	for _, c := range []struct {
		name  string
		rules string
		want  [][]string
	}{
		{"its address", rule("tcp", s.if0, s.ip0), [][]string{one}},
		{"two interfaces", rule("tcp", "eth0,eth1", s.ip0, s.ip1), both},
		{"rules that match again", rule("tcp", "eth0,eth1", s.ip0, s.ip1) + rule("tcp", s.if0, s.ip0) + rule("tcp", "", "*.*.*.*"), both},
		{"a rule for another net", rule("tcp", "eth0,eth1", s.ip0, s.ip1) + rule("tcp2", s.if0, s.ip0), append(both[:2:2], []string{"net", "add", "--net", "tcp2", "--if", s.if0})},
		{"a range", rule("tcp", s.if0, net+"[0-"+host+"]"), [][]string{one}},
		{"a list", rule("tcp", s.if0, net+"[200,"+host+",201]"), [][]string{one}},
		{"IPv6", rule("tcp", s.if0, "2001:db8:0:f101::1"), [][]string{one}},
		{"IPv6 with /128", rule("tcp", s.if0, "2001:db8:0:f101::1/128"), [][]string{one}},
		{"a prefix of 64", rule("tcp", s.if0, "2001:db8:0:f101::/64"), [][]string{one}},
		{"a prefix of 32", rule("tcp", s.if0, "2001:db8::/32"), [][]string{one}},
		{"a prefix of 16", rule("tcp", s.if0, "2001::/16"), [][]string{one}},
		{"a prefix of 8", rule("tcp", s.if0, "2000::/8"), [][]string{one}},
	} {
		s.fresh()
		for _, command := range c.want {
			s.ok(command...)
		}
		saved := s.backup()
		s.fresh()
		s.ok("import", s.file("ip2nets:\n"+c.rules))
		s.equal(c.name, saved, s.backup())
	}
	s.fresh()
	s.fails("import", s.file("ip2nets:\n"+rule("tcp", s.if0, "192.0.2.1")))
	if out := s.ok("net", "show"); strings.Contains(out, "tcp") {
		t.Errorf("an NI in spite of that:\n%s", out)
	}
}

// A modprobe line is converted to YAML with the same NIs. The line itself gives the same NIs too.
//
// sanity-lnet 10 (617)
func TestSanityModprobe(t *testing.T) {
	s := newSanity(t)
	s.ok("net", "add", "--net", "tcp", "--if", s.if0)
	saved := s.backup()
	line := fmt.Sprintf("options lnet ip2nets=\"tcp(%s) %s*\"\n", s.if0, s.ip0[:strings.LastIndexByte(s.ip0, '.')+1])
	yaml, _, err := modparam.Convert([]modparam.Text{{Name: "lustre.conf", Kind: modparam.Modprobe, Data: []byte(line)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"import", s.file(string(yaml))}, {"import", "--modprobe", s.file(line)}} {
		s.fresh()
		s.ok(command...)
		s.equal(command[1], saved, s.backup())
	}
}

// If an entry of the string an ip2nets entry uses an interface whose addresses do not match its patterns, all
// commands that read it print a warning on the terminal.
//
// lnetctl 11 (11)
func TestMismatchOnTheTerminal(t *testing.T) {
	s := newSanity(t)
	rules := "tcp5(" + s.if0 + ") " + s.ip1
	file := s.file(fmt.Sprintf("lnetd: {ip2nets: %q}\n", rules))
	want := fmt.Sprintf("tcp5(%s) has no address that matches the patterns of %q; %s has %s; write that interface", s.if0, rules, s.if1, s.ip1)
	check := exec.Command("ip", "netns", "exec", s.host.name, program(t, "lnetd"), "--check", "--config", file)
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "warning: "+file+":1: lnetd.ip2nets: "+want) {
		t.Errorf("--check: %v\n%s", err, out)
	}
	for _, command := range [][]string{{"net", "add", "--ip2net", rules}, {"plan", file}, {"import", file}, {"apply", file}} {
		s.fresh()
		if out := s.ok(command...); !strings.Contains(out, want) {
			t.Errorf("%v:\n%s", command, out)
		}
	}
}
