package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// doctor runs "lnetdctl doctor" on the host, through a wrapper if one is given, and returns the findings and the
// exit status.
func (h *host) doctor(t *testing.T, wrapper []string, args ...string) ([]diagnosis.Finding, int) {
	t.Helper()
	line := slices.Concat([]string{"netns", "exec", h.name}, wrapper,
		[]string{program(t, "lnetdctl"), "--control-socket", h.socket(), "--json", "doctor", "--timeout", "2"}, args)
	cmd := exec.Command("ip", line...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var found struct{ Findings []diagnosis.Finding }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("lnetdctl doctor: %v: %q %v", err, out, exit)
	}
	return found.Findings, cmd.ProcessState.ExitCode()
}

// wantFindings waits until "lnetdctl doctor" on the host finds exactly the given codes. The evidence of the first
// one must contain evidence. If there are no codes, the exit status must be 0.
func (h *host) wantFindings(t *testing.T, args []string, evidence string, codes ...diagnosis.Code) {
	t.Helper()
	daemontest.Within(t, 2*noticePatience, fmt.Sprintf("findings %v", codes), func() error {
		findings, status := h.doctor(t, nil, args...)
		return compareFindings(findings, status, evidence, codes)
	})
}

func compareFindings(findings []diagnosis.Finding, status int, evidence string, codes []diagnosis.Code) error {
	found := []diagnosis.Code{}
	for k := range findings {
		found = append(found, findings[k].Code)
	}
	if diff := cmp.Diff(append([]diagnosis.Code{}, codes...), found); diff != "" {
		return fmt.Errorf("codes (-want +got):\n%s%+v", diff, findings)
	}
	want := 0
	switch diagnosis.Worst(findings) {
	case diagnosis.Warning:
		want = 1
	case diagnosis.Error:
		want = 2
	}
	if status != want {
		return fmt.Errorf("exit status %d, want %d", status, want)
	}
	for k := range findings {
		if strings.Contains(findings[k].Evidence, evidence) {
			return nil
		}
	}
	if len(findings) > 0 {
		return fmt.Errorf("no %q in %+v", evidence, findings)
	}
	return nil
}

// firewall adds rules for arriving packets to the host. The returned function removes them.
func (h *host) firewall(t *testing.T, rules ...string) (remove func()) {
	t.Helper()
	nft := func(text string) {
		t.Helper()
		cmd := exec.Command("ip", "netns", "exec", h.name, "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nft: %v\n%s\n%s", err, text, out)
		}
	}
	nft("add table inet wall\nadd chain inet wall in { type filter hook input priority 0; }\nadd rule inet wall in " +
		strings.Join(rules, "\nadd rule inet wall in ") + "\n")
	return func() { t.Helper(); nft("delete table inet wall\n") }
}

// Given a healthy pair, then doctor finds nothing. When the interface of a node breaks in one of several ways, then
// doctor names the way, and finds nothing after the remedy.
func TestDoctorInterfaces(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{})
	ip := func(args ...string) { t.Helper(); namespace.IP(t, append([]string{"-n", a.name}, args...)...) }
	a.wantFindings(t, nil, "")
	a.wantFindings(t, []string{b.nid()}, "")

	ip("link", "set", "eth0", "down")
	a.wantFindings(t, nil, "eth0 is switched off", diagnosis.InterfaceOff, diagnosis.NoNIUp)
	ip("link", "set", "eth0", "up")
	a.wantFindings(t, nil, "")

	pull(t, 0, a)
	a.wantFindings(t, nil, "eth0 has no carrier", diagnosis.NoCarrier, diagnosis.NoNIUp)
	plug(t, 0, a)
	a.wantFindings(t, nil, "")

	ip("addr", "del", a.addr(0)+"/24", "dev", "eth0")
	a.wantFindings(t, nil, "eth0 does not have the address "+a.addr(0), diagnosis.AddressMissing, diagnosis.NoNIUp)
	ip("addr", "add", a.addr(0)+"/24", "dev", "eth0")
	a.wantFindings(t, nil, "")

	ip("addr", "add", a.addr(0)+"/32", "dev", "lo")
	a.wantFindings(t, nil, "eth0 and lo both have "+a.addr(0), diagnosis.AddressTwice)
	ip("addr", "del", a.addr(0)+"/32", "dev", "lo")
	a.wantFindings(t, nil, "")
	a.wantFindings(t, []string{b.nid()}, "")
	other.Stop(t)
	one.Stop(t)
}

// Given a node whose second NI is on an interface that does not exist, then doctor reports it, and names the
// interface that has the address. When the interface exists, doctor finds nothing.
func TestDoctorMissingInterface(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	d := a.run(t, nil, nil, nil, program(t, "lnetd"), "--control-socket", a.socket(), "--net", "tcp(eth0),tcp1(eth7)")
	a.wantFindings(t, nil, "no such network device", diagnosis.InterfaceMissing)
	namespace.IP(t, "-n", a.name, "link", "add", "eth7", "type", "veth", "peer", "name", "eth8")
	a.wantFindings(t, nil, "eth7 is switched off", diagnosis.InterfaceOff)
	namespace.IP(t, "-n", a.name, "link", "set", "eth8", "up")
	namespace.IP(t, "-n", a.name, "link", "set", "eth7", "up")
	a.wantFindings(t, nil, "eth7 has no address", diagnosis.AddressMissing)
	namespace.IP(t, "-n", a.name, "addr", "add", "10.213.77.1/24", "dev", "eth7")
	a.wantFindings(t, nil, "")
	d.Stop(t)

	// lnetd is not running: the same from the configuration file.
	path := a.write(t, &configuration{})
	namespace.IP(t, "-n", a.name, "link", "set", "eth0", "down")
	a.wantFindings(t, []string{"--config", path}, "eth0 is switched off", diagnosis.NotRunning, diagnosis.InterfaceOff)
}

// Given a host on which lnetd is not running, then doctor reports what would prevent a start: a process that has
// the port, with its name; a lack of privileges; a configuration with errors; a driver that is not built in.
func TestDoctorStart(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	testenv.NeedCommand(t, "setpriv", "util-linux")
	a.wantFindings(t, nil, "cannot reach lnetd", diagnosis.NotRunning)

	l := a.listen(t, a.addr(0)+":988")
	a.wantFindings(t, nil, "it belongs to pid", diagnosis.NotRunning, diagnosis.PortInUse)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	a.wantFindings(t, nil, "cannot reach lnetd", diagnosis.NotRunning)

	const nobody = "65534"
	asNobody := []string{"setpriv", "--reuid", nobody, "--regid", nobody, "--clear-groups"}
	findings, status := a.doctor(t, asNobody)
	if err := compareFindings(findings, status, "no permission to listen on "+a.addr(0)+":988",
		[]diagnosis.Code{diagnosis.NotRunning, diagnosis.PortFallback}); err != nil {
		t.Error(err)
	}

	for _, c := range []struct {
		file, evidence string
		code           diagnosis.Code
	}{
		{"lnetd: {port: 988}\n", "no permission to listen on", diagnosis.PortForbidden},
		{"nett: []\n", "line 1: nett: invalid key 'nett'", diagnosis.ConfigRejected},
		{"net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0}}]}]\n", "no driver for o2ib nets", diagnosis.DriverAbsent},
	} {
		findings, status := a.doctor(t, asNobody, "--config", a.file(t, "start.yaml", c.file))
		if err := compareFindings(findings, status, c.evidence, []diagnosis.Code{diagnosis.NotRunning, c.code}); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
	}
}

// Given a pair, when the peer, its host, a firewall or the network between fail in one of several ways, then doctor
// names the way, and finds nothing after the remedy.
func TestDoctorPeers(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{})
	toB := []string{b.nid()}
	a.wantFindings(t, toB, "")

	mend := b.world.shrink(t, 0, 1400)
	a.wantFindings(t, toB, "not to packets of 1500 bytes", diagnosis.PacketsLost)
	mend()
	a.wantFindings(t, toB, "")

	other.Stop(t)
	a.wantFinding(t, toB, "Connection refused", diagnosis.ConnectRefused)
	remove := b.firewall(t, "tcp dport 988 drop")
	a.wantFinding(t, toB, "other packets to "+b.addr(0)+" are answered", diagnosis.Filtered)
	remove()
	pull(t, 0, b)
	a.wantFinding(t, toB, b.addr(0), diagnosis.HostUnreachable)
	plug(t, 0, b)
	unmute := b.mute(t)
	a.wantFinding(t, toB, "TCP connects to", diagnosis.LNetRefused)
	unmute()
	a.wantFinding(t, []string{b.addr(0) + "@tcp7"}, "no NI on tcp7", diagnosis.NoRoute)
	other = b.startWith(t, &configuration{})
	a.wantFinding(t, []string{b.addr(0) + "@tcp7"}, b.nid(), diagnosis.WrongNet)
	a.wantFindings(t, toB, "")
	other.Stop(t)
	one.Stop(t)
}

// wantFinding waits until "lnetdctl doctor" on the host has a finding with the code and the evidence, besides
// others.
func (h *host) wantFinding(t *testing.T, args []string, evidence string, code diagnosis.Code) {
	t.Helper()
	daemontest.Within(t, 2*noticePatience, string(code), func() error {
		findings, status := h.doctor(t, nil, args...)
		for k := range findings {
			if findings[k].Code == code && strings.Contains(findings[k].Evidence, evidence) {
				return nil
			}
		}
		return fmt.Errorf("status %d, no %s with %q in %+v", status, code, evidence, findings)
	})
}

// mute starts a listener for LNet on the host that closes every connection. The returned function stops it.
func (h *host) mute(t *testing.T) (stop func()) {
	t.Helper()
	l := h.listen(t, h.addr(h.networks[0])+":988")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return func() {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	}
}

// Given a router between two networks, then doctor finds nothing on any of the three. When the router stops
// routing, or is killed, doctor on a host names it.
func TestDoctorRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	gateway, left, right := w.host(t, 0, 1), w.host(t, 0), w.host(t, 1)
	router := gateway.startWith(t, &configuration{router: true})
	client := left.startWith(t, &configuration{routes: []route{{to: 1, on: 0, gateway: gateway, hops: 1}}})
	server := right.startWith(t, &configuration{routes: []route{{to: 0, on: 1, gateway: gateway, hops: 1}}})
	left.wantFindings(t, []string{right.nid()}, "")
	gateway.wantFindings(t, nil, "")

	router.Must(t, "set", "routing", "0")
	left.wantFinding(t, nil, "reports that routing is off", diagnosis.NotARouter)
	daemontest.Within(t, noticePatience, "routing is enabled again", func() error { // refused while it is stopping
		if out, status := router.Ctl(t, "set", "routing", "1"); status != 0 {
			return fmt.Errorf("status %d: %s", status, out)
		}
		return nil
	})
	left.wantFindings(t, []string{right.nid()}, "")

	router.Kill(t)
	left.wantFinding(t, nil, "no gateway is up: "+gateway.nid(), diagnosis.NetUnreachable)
	left.wantFinding(t, []string{gateway.nid()}, "Connection refused", diagnosis.ConnectRefused)
	router = gateway.startWith(t, &configuration{router: true})
	left.wantFindings(t, []string{right.nid()}, "")
	for _, d := range []*daemon{client, server, router} {
		d.Stop(t)
	}
}

// Given a peer without discovery, then doctor reports that. Given a peer of which one of two rails is cut, then it
// names the rail.
func TestDoctorDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	a, b := w.host(t, 0, 1), w.host(t, 0, 1)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{alone: true})
	a.wantFinding(t, []string{b.nid()}, "reports that it is off there", diagnosis.DiscoveryOffPeer)
	other.Must(t, "set", "discovery", "1")
	a.wantFindings(t, []string{b.nid()}, "")
	one.Must(t, "set", "discovery", "0")
	a.wantFinding(t, []string{b.nid()}, "has 2 NIDs", diagnosis.DiscoveryOffHere)
	one.Must(t, "set", "discovery", "1")
	a.wantFindings(t, []string{b.nid()}, "")

	mend := w.blackHole(t, 1)
	a.wantFinding(t, []string{b.nid()}, "", diagnosis.RailSilent)
	mend()
	a.wantFindings(t, []string{b.nid()}, "")
	other.Stop(t)
	one.Stop(t)
}
