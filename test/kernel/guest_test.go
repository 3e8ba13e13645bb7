package kernel

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// guest is a kernel node.
type guest struct{ virtualMachine }

// options makes a router's buffers fit into a guest's memory, and makes guests check routers every
// few seconds. A router announces at most that fast that it has started to forward.
var options = fmt.Sprintf("lnet tiny_router_buffers=512 small_router_buffers=4096 large_router_buffers=256"+
	" alive_router_check_interval=%d router_ping_timeout=%d", routerCheck, routerSilence)

// transactionTimeout, in seconds, is a fifth of the default. A kernel stops using a dead rail after
// a third of it, and sends on it until then.
const transactionTimeout = 30

// guest boots a kernel node on networks (br0 is the first), with an NI on each of the nets, and
// enables LNet selftest on it.
func (l *lab) guest(t *testing.T, networks ...int) *guest {
	t.Helper()
	g := &guest{l.virtualMachine("k", networks)}
	g.boot(t)
	return g
}

// boot boots the guest and starts LNet.
func (g *guest) boot(t *testing.T) {
	t.Helper()
	g.virtualMachine.boot(t)
	g.must(t, "modprobe lnet && lnetctl lnet configure && modprobe lnet_selftest")
	g.must(t, fmt.Sprintf("lnetctl set transaction_timeout %d", transactionTimeout))
	for _, network := range g.networks {
		g.must(t, fmt.Sprintf("lnetctl net add --net %s --if eth%d", g.lab.nets[network], network))
	}
}

// route adds a route to a network by a gateway's NID on the other network.
func (g *guest) route(t *testing.T, to int, gateway string) {
	t.Helper()
	g.must(t, fmt.Sprintf("lnetctl route add --net %s --gateway %s", g.lab.nets[to], gateway))
}

// wantPing makes the guest ping a member until it answers, because its information about a gateway
// may be old.
func (g *guest) wantPing(t *testing.T, to string) {
	t.Helper()
	g.within(t, "lnetctl ping --timeout "+pingTimeout+" "+to, to)
}

// wantDiscover makes the guest discover the NIDs of a member.
func (g *guest) wantDiscover(t *testing.T, of member) {
	t.Helper()
	want := []string{"Multi-Rail: True"}
	for _, network := range of.networks {
		want = append(want, of.nid(network))
	}
	g.within(t, "lnetctl discover "+of.primary(), want...)
}

// within repeats a command until it succeeds and prints all of says.
func (g *guest) within(t *testing.T, command string, says ...string) {
	t.Helper()
	daemontest.Within(t, patience, g.name+": "+command, func() error {
		out, status := g.try(t, command)
		return saysAll(out, status, says)
	})
}

func saysAll(out string, status int, says []string) error {
	if status != 0 {
		return fmt.Errorf("status %d\n%s", status, out)
	}
	for _, s := range says {
		if !strings.Contains(strings.ToLower(out), strings.ToLower(s)) {
			return fmt.Errorf("no %q in\n%s", s, out)
		}
	}
	return nil
}

// lst runs a test from a client to a server, controlled by the guest. No errors may occur. A kernel
// counts as RPC errors also those that the end of an earlier session caused.
func (g *guest) lst(t *testing.T, from, to, test string) {
	t.Helper()
	out := g.must(t, fmt.Sprintf("CONC=4 lst1 %s %s 2 %s", from, to, test))
	if errors := trouble.FindString(out); errors != "" || !progress.MatchString(out) || !strings.Contains(out, "Batch is stopped") {
		t.Errorf("lst %s from %s to %s: %s\n%s", test, from, to, errors, out)
	}
}

var (
	trouble  = regexp.MustCompile(`Session ([1-9]\d* brw|\d+ brw errors, [1-9]\d* ping) errors`)
	progress = regexp.MustCompile(`Avg: [1-9]\d* +RPC/s`)
)
