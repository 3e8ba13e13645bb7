package kernel

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/daemon/daemontest"
)

// guest is a kernel node.
type guest struct{ box }

// options has a router's buffers fit a guest's memory, and routers found out about
// in seconds: one that was just told to forward says so no sooner.
var options = fmt.Sprintf("lnet tiny_router_buffers=512 small_router_buffers=4096 large_router_buffers=256"+
	" alive_router_check_interval=%d router_ping_timeout=%d", routerCheck, routerSilence)

// transactionTimeout, in seconds, is a fifth of the default: a kernel gives a rail
// that is dead up after a third of it, and until then sends by it all the same.
const transactionTimeout = 30

// guest boots a kernel node on networks, br0 the first, with an NI on each of the
// nets, and has it take part in LNet selftest.
func (l *lab) guest(t *testing.T, networks ...int) *guest {
	t.Helper()
	g := &guest{l.box("k", networks)}
	g.boot(t)
	return g
}

// boot boots it, and brings LNet up.
func (g *guest) boot(t *testing.T) {
	t.Helper()
	g.box.boot(t)
	g.must(t, "modprobe lnet && lnetctl lnet configure && modprobe lnet_selftest")
	g.must(t, fmt.Sprintf("lnetctl set transaction_timeout %d", transactionTimeout))
	for _, network := range g.networks {
		g.must(t, fmt.Sprintf("lnetctl net add --net %s --if eth%d", g.lab.nets[network], network))
	}
}

// route adds a route to a network by a gateway's NID on the other.
func (g *guest) route(t *testing.T, to int, gateway string) {
	t.Helper()
	g.must(t, fmt.Sprintf("lnetctl route add --net %s --gateway %s", g.lab.nets[to], gateway))
}

// wantPing has the guest ping a member until it answers, as what it has heard of
// a gateway may be old.
func (g *guest) wantPing(t *testing.T, to string) {
	t.Helper()
	g.within(t, "lnetctl ping --timeout "+pingTimeout+" "+to, to)
}

// wantDiscover has it find out which NIDs a member has.
func (g *guest) wantDiscover(t *testing.T, of member) {
	t.Helper()
	want := []string{"Multi-Rail: True"}
	for _, network := range of.networks {
		want = append(want, of.nid(network))
	}
	g.within(t, "lnetctl discover "+of.primary(), want...)
}

// within repeats a command until it succeeds and says all this.
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

// lst runs a test from a client to a server, driven by the guest, in which nobody
// may see an error. What a kernel counts among its RPCs' errors are also those that
// the end of an earlier session cut short.
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
