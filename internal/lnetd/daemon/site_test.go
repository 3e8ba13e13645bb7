package daemon

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Site rules and strings of module parameters have the same effect on a host as a configuration
// written for it.
//
// lnetctl 10
// sanity-lnet 6 (150), 6 (151)
func TestSiteIsAsWrittenForTheMachine(t *testing.T) {
	byHand := startNode(t, parse(t, twoNets+"route: [{net: tcp7, gateway: 10.77.0.20@tcp, hop: 2}]\n")).ready(t).shape(t)
	const routes = `routes: "tcp7 2 10.77.0.20@tcp"`
	for name, text := range map[string]string{
		"rules": "ip2nets: [{net-spec: tcp, ip-range: ['10.77.*.*']}, {net-spec: tcp1, interfaces: [eth1], ip-range: [10.78.0.11]}]\n" +
			"lnetd: {" + routes + "}\n",
		"ip2nets":  `lnetd: {ip2nets: "tcp(eth0) 10.77.0.*; tcp1(eth1) 10.78.0.[0-99]; tcp2 10.79.0.*", ` + routes + "}\n",
		"networks": `lnetd: {networks: "tcp(eth0),tcp1(eth1)", ` + routes + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(byHand, startNode(t, parse(t, text)).ready(t).shape(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A gateway that is a NID of this node makes the node a router.
//
// lnetctl 13 (2)
func TestRouterByRoutes(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`lnetd: {routes: "tcp7 10.77.0.[11,20]@tcp"}`)).ready(t)
	if s := r.Routing().State; node.RoutingState(s) != node.RoutingEnabled || len(r.Routes()) != 1 {
		t.Errorf("state %d, routes %+v", s, r.Routes())
	}
}

// sanity-lnet 6 (155)
func TestSiteWithoutTheMachine(t *testing.T) {
	for text, want := range map[string]struct {
		errno int
		err   error
	}{
		"ip2nets: [{net-spec: tcp, ip-range: [10.1.2.3]}]\n": {-22, nil},
		"lnetd: {ip2nets: tcp 10.1.2.3}\n":                   {-2, lnet.ErrNoMatch},
	} {
		c := parse(t, text)
		r := startNode(t, c).ready(t) // an interface that a rule matches may appear
		if nis := r.node.NIs(); len(nis) != 1 || !strings.Contains(r.log.String(), "no ip2nets rule matches this host") {
			t.Errorf("%s: NIs %+v\n%s", text, nis, r.log)
		}
		_, err := r.node.resolvedState(&c)
		var f *api.Fault
		if !errors.As(err, &f) || f.Code != api.CodeConfigInvalid || f.Errno != want.errno || f.Text != "No ip2nets rules applied" {
			t.Errorf("%s: %v", text, err)
		}
		if want.err != nil && !errors.Is(err, want.err) {
			t.Errorf("the cause is lost: %v", err)
		}
	}
	// An interface that only a string names is left to the driver.
	r := startNode(t, parse(t, "lnetd: {ip2nets: 'tcp(eth7) 10.77.*.*'}\n")).ready(t)
	if w := r.Waiting(); len(w) != 1 || w[0].Interface != "eth7" {
		t.Errorf("%+v", w)
	}
}

// An entry of the string "ip2nets" that selects an interface by another one's address gives a
// warning everywhere: at the start, in --check, with a document, with a reload, and in "net add".
//
// lnetctl 11 (11)
func TestMismatchesAreWarned(t *testing.T) {
	const rules = "tcp5(eth0) 10.78.0.*"
	const document = `lnetd: {ip2nets: "` + rules + `"}`
	const want = `tcp5(eth0) has no address that matches the patterns of "` + rules + `"; eth1 has 10.78.0.11`
	quoted := strings.ReplaceAll(want, `"`, `\"`)
	addrs := func(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }
	machine := []config.Interface{
		{Name: "eth0", Up: true, Addrs: addrs("10.77.0.11")}, {Name: "eth1", Up: true, Addrs: addrs("10.78.0.11")},
	}
	start := func(t *testing.T, text string) *nodeRun {
		t.Helper()
		r := startNode(t, parse(t, text)).ready(t)
		r.machine.Store(&machine)
		return r
	}
	for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace} {
		t.Run(string(mode), func(t *testing.T) {
			done, err := start(t, twoNets).document(t, mode, document)
			if err != nil || len(done.Warnings) == 0 || done.Warnings[0].Text != want || done.Warnings[0].Line != 1 {
				t.Errorf("%+v, %v", done.Warnings, err)
			}
		})
	}
	t.Run("net add", func(t *testing.T) {
		warnings, err := start(t, twoNets).AddNet(t.Context(), api.NetAddition{IP2Nets: rules})
		if diff := cmp.Diff([]string{want + "; " + mismatchRemedy}, warnings); diff != "" || err != nil {
			t.Errorf("%v, %s", err, diff)
		}
	})
	t.Run("reload", func(t *testing.T) {
		r, c := start(t, twoNets), parse(t, document)
		if err := r.reload(t, c); err != nil || !strings.Contains(r.log.String(), quoted) {
			t.Errorf("%v\n%s", err, r.log)
		}
	})
	t.Run("start", func(t *testing.T) {
		if r := start(t, document); !strings.Contains(r.log.String(), quoted) || len(r.Nets()) != 2 {
			t.Errorf("%+v\n%s", r.Nets(), r.log)
		}
	})
	t.Run("--check", func(t *testing.T) {
		c := parse(t, document)
		got := foreseeRules("t.yaml", &c, machine)
		if len(got) != 1 || got[0].Error() != "t.yaml:1: lnetd.ip2nets: "+want+"; "+mismatchRemedy || len(c.NIs) != 1 {
			t.Errorf("%v, NIs %v", got, c.NIs)
		}
	})
}

func TestHostInterfaces(t *testing.T) {
	want, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	got, err := hostInterfaces()
	if err != nil || len(got) != len(want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for k, i := range got {
		addrs, err := want[k].Addrs()
		if err != nil || i.Name != want[k].Name || len(i.Addrs) != len(addrs) ||
			i.Up != (want[k].Flags&net.FlagUp != 0) || i.Loopback != (want[k].Flags&net.FlagLoopback != 0) {
			t.Errorf("%+v, want %+v with %v", i, want[k], addrs)
		}
	}
}
