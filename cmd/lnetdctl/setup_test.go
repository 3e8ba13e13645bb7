package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// fakeHost is a machine in memory.
type fakeHost struct {
	interfaces map[string]string // by address: "eth0 24"
	has        map[string]bool   // commands that exist
	sysctls    map[string]string
	plain      bool // the caller has no privileges
	done       []string
}

func (h *fakeHost) Address(name string, ip netip.Addr) (netip.Prefix, int, error) {
	var device string
	var bits int
	if _, err := fmt.Sscan(h.interfaces[ip.String()], &device, &bits); err != nil || device != name {
		return netip.Prefix{}, 0, fmt.Errorf("%s does not have the address %s", name, ip)
	}
	return netip.PrefixFrom(ip, bits), int(name[len(name)-1]-'0') + 2, nil
}

func (h *fakeHost) Run(_ context.Context, argv ...string) (string, error) {
	line := strings.Join(argv, " ")
	if argv[3] == "show" {
		if h.has[line] {
			return "there\n", nil
		}
		return "", nil
	}
	if h.plain {
		return "", fmt.Errorf("RTNETLINK answers: Operation not permitted")
	}
	h.done = append(h.done, line)
	return "", nil
}

func (h *fakeHost) Sysctl(key []string) (string, error) {
	v, ok := h.sysctls[strings.Join(key, "/")]
	if !ok {
		return "0", nil
	}
	return v, nil
}

func (h *fakeHost) SetSysctl(key []string, value string) error {
	if h.plain {
		return &fs.PathError{Op: "open", Path: strings.Join(key, "/"), Err: fs.ErrPermission}
	}
	h.done = append(h.done, strings.Join(key, "/")+"="+value)
	return nil
}

// sharing returns a node with two rails on one subnet, a third on a separate one, and one of IPv6.
func sharing(t *testing.T) (socket string, h *fakeHost) {
	t.Helper()
	n := newCannedNode()
	for _, ni := range []struct{ nid, device string }{
		{"10.0.0.1@tcp", "eth0"}, {"10.0.0.2@tcp", "eth1"}, {"10.0.0.1@tcp1", "eth0"}, {"10.9.0.1@tcp2", "eth2"}, {"fd00::1@tcp3", "eth.3"},
		{"10.9.0.9@tcp4", "eth2"},
	} {
		nid := mustNID(t, ni.nid)
		n.NetList = append(n.NetList, api.Net{Net: nid.Net(), NIs: []api.NI{{NID: nid, Interfaces: []string{ni.device}}}})
	}
	return serve(t, n), &fakeHost{interfaces: map[string]string{
		"10.0.0.1": "eth0 24", "10.0.0.2": "eth1 24", "10.9.0.1": "eth2 24", "10.9.0.9": "eth2 24", "fd00::1": "eth.3 64",
	}}
}

const (
	sharedRoutes = `ip -4 route replace 10.0.0.0/24 dev eth0 src 10.0.0.1 table 10002
ip -4 rule add from 10.0.0.1 table 10002
ip -4 route replace 10.0.0.0/24 dev eth1 src 10.0.0.2 table 10003
ip -4 rule add from 10.0.0.2 table 10003
`
	sharedSysctls = `sysctl -w net.ipv4.conf.eth0.arp_ignore=1  # is 0
sysctl -w net.ipv4.conf.eth0.arp_announce=2  # is 0
sysctl -w net.ipv4.conf.eth0.rp_filter=2  # is 1
sysctl -w net.ipv4.conf.eth1.arp_announce=2  # is 0
`
)

// The commands for the host are printed, and executed only with --run.
//
// lnetctl 4.16
// sanity-lnet 11 (250), 11 (260)
func TestSetup(t *testing.T) {
	for line, want := range map[string]string{"setup-mrrouting": sharedRoutes, "setup-sysctl": sharedSysctls} {
		socket, h := sharing(t)
		h.sysctls = map[string]string{"net/ipv4/conf/eth1/arp_ignore": "1", "net/ipv4/conf/eth0/rp_filter": "1"}
		got := runProgram(program{host: h}, line, "--control-socket", socket)
		if diff := cmp.Diff(ran{want, "", 0}, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Error(line, diff)
		}
		if len(h.done) > 0 {
			t.Errorf("%s has done %v", line, h.done)
		}
		if got := runProgram(program{host: h, hints: true}, line, "--control-socket", socket); got.stderr != "# nothing was changed; use --run to make the changes\n" {
			t.Errorf("%s: %+v", line, got)
		}
		if got := runProgram(program{host: h}, line, "--run", "--control-socket", socket); got != (ran{want, "", 0}) {
			t.Errorf("%s: %+v", line, got)
		}
		if len(h.done) != strings.Count(want, "\n") {
			t.Errorf("%s has done %v", line, h.done)
		}
	}
}

// Settings that are in force already are left out.
//
// lnetctl 4.16
func TestSetupAgain(t *testing.T) {
	socket, h := sharing(t)
	h.has = map[string]bool{
		"ip -4 route show 10.0.0.0/24 dev eth0 table 10002": true, "ip -4 rule show from 10.0.0.2 table 10003": true,
	}
	want := "ip -4 rule add from 10.0.0.1 table 10002\nip -4 route replace 10.0.0.0/24 dev eth1 src 10.0.0.2 table 10003\n"
	if got := runProgram(program{host: h}, "setup-mrrouting", "--control-socket", socket); got != (ran{want, "", 0}) {
		t.Errorf("%+v", got)
	}
	h.interfaces["10.0.0.2"] = "eth1 32" // no common subnet
	for _, line := range []string{"setup-mrrouting", "setup-sysctl"} {
		got := runProgram(program{host: h, hints: true}, line, "--run", "--control-socket", socket)
		if got.stdout != "" || got.status != exitOK || !strings.Contains(got.stderr, "nothing to do") || len(h.done) > 0 {
			t.Errorf("%s: %+v, %v", line, got, h.done)
		}
		var answer struct {
			Actions []action
			Done    bool
		}
		got = runProgram(program{host: h}, line, "--json", "--control-socket", socket)
		if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || answer.Actions == nil || answer.Done {
			t.Errorf("%s: %v: %+v", line, err, got)
		}
	}
}

// A user without the right to do so, or on another host than lnetd, gets an error.
//
// lnetctl 4.16
func TestSetupFails(t *testing.T) {
	socket, h := sharing(t)
	h.plain = true
	for line, first := range map[string]string{
		"setup-mrrouting": "ip -4 route replace 10.0.0.0/24 dev eth0 src 10.0.0.1 table 10002", "setup-sysctl": "sysctl -w net.ipv4.conf.eth0.arp_ignore=1",
	} {
		want := ran{"", oldDocumentOf("setup", strings.TrimPrefix(line, "setup-"), "-1", "failed: "+first+": not permitted"), 234}
		if got := runProgram(program{host: h}, line, "--run", "--control-socket", socket); got != want {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	}
	delete(h.interfaces, "10.0.0.2")
	want := ran{"", oldDocumentOf("setup", "sysctl", "-22", "cannot read the interfaces of the host"), 234}
	if got := runProgram(program{host: h}, "setup-sysctl", "--control-socket", socket); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// If packets are not filtered, that does not change. The filter of all interfaces counts too.
//
// lnetctl 4.16
func TestReversePathFilter(t *testing.T) {
	for _, c := range []struct{ all, own, want string }{
		{"0", "0", "0"}, {"0", "1", "2"}, {"1", "0", "2"}, {"1", "1", "2"}, {"2", "0", "0"}, {"0", "2", "2"}, {"1", "2", "2"},
	} {
		h := &fakeHost{sysctls: map[string]string{"net/ipv4/conf/all/rp_filter": c.all}}
		if got, err := wantedSysctl(h, "rp_filter", c.own); got != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// Dots of a key separate its words.
func TestSysctlName(t *testing.T) {
	if got := sysctlName([]string{"net", "ipv4", "conf", "eth0.100", "rp_filter"}); got != "net.ipv4.conf.eth0/100.rp_filter" {
		t.Error(got)
	}
}
