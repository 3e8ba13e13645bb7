package netns

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// sanity-lnet 5 (200)
//
// Given two hosts on one wire, when lnetd runs on both with default options, then they show their
// NIs and ping each other. When one is killed, the other notices, counts a lost peer, and fails
// pings in time. When the killed one runs again, pings work again in both directions, and the
// survivor has not been restarted.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	survivor := a.start(t)
	victim := b.start(t)

	out, status := survivor.Ctl(t, "net", "show")
	want := fmt.Sprintf(`net:
-     net type: lo
      local NI(s):
      -     nid: 0@lo
            status: up
-     net type: tcp
      local NI(s):
      -     nid: %s
            status: up
            interfaces:
                  0: eth0
`, a.nid())
	if status != 0 || out != want {
		t.Errorf("net show: status %d\n%s", status, out)
	}
	survivor.wantPing(t, b)
	victim.wantPing(t, a)

	lost := survivor.counter(t, "peers_down_total")
	victim.Kill(t)
	daemontest.Within(t, noticePatience, "the survivor counts a lost peer", func() error {
		if now := survivor.counter(t, "peers_down_total"); now != lost+1 {
			return fmt.Errorf("peers_down_total %d, before the loss %d", now, lost)
		}
		return nil
	})
	begin := time.Now()
	out, status = survivor.Ctl(t, "ping", b.nid())
	if status != 255 || !strings.Contains(out, "descr: ! 'failed to ping "+b.nid()+": Connection refused'") {
		t.Errorf("ping of a dead node: status %d\n%s", status, out)
	}
	if took := time.Since(begin); took > noticePatience {
		t.Errorf("ping of a dead node took %v", took)
	}

	revived := b.start(t)
	daemontest.Within(t, noticePatience, "the revived node answers", func() error {
		if out, status := survivor.Ctl(t, "ping", "--timeout", "5", b.nid()); status != 0 || out != answer(b) {
			return fmt.Errorf("status %d\n%s", status, out)
		}
		return nil
	})
	revived.wantPing(t, a)
	revived.Stop(t)
	survivor.Stop(t)
}

// Given a wire that is cut, when a node is pinged, then the ping fails within its timeout, and
// works again after the repair.
func TestCutWire(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	one := a.start(t)
	other := b.start(t)
	one.wantPing(t, b)

	pull(t, 0, a, b)
	daemontest.Within(t, noticePatience, "the NI goes down", func() error {
		if out, _ := one.Ctl(t, "net", "show", "--net", "tcp"); !strings.Contains(out, "status: down") {
			return fmt.Errorf("net show:\n%s", out)
		}
		return nil
	})
	if out, status := one.Ctl(t, "ping", "--timeout", "1", b.nid()); status != 255 {
		t.Errorf("ping over a cut wire: status %d\n%s", status, out)
	}

	plug(t, 0, a, b)
	daemontest.Within(t, noticePatience, "the other node answers", func() error {
		if out, status := one.Ctl(t, "ping", "--timeout", "5", b.nid()); status != 0 {
			return fmt.Errorf("status %d\n%s", status, out)
		}
		return nil
	})
	if out, _ := one.Ctl(t, "net", "show", "--net", "tcp"); !strings.Contains(out, "status: up") {
		t.Errorf("net show:\n%s", out)
	}
	other.Stop(t)
	one.Stop(t)
}

// Given unprivileged users on both hosts, when they run lnetd with default options, then it reports
// that it cannot use port 988, uses 9988, and the two ping each other.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	testenv.NeedCommand(t, "setpriv", "util-linux")
	const nobody = 65534
	asNobody := []string{"setpriv", "--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups"}
	for _, h := range []*host{a, b} {
		if err := os.Chown(h.dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	one := a.start(t, asNobody...)
	other := b.start(t, asNobody...)
	one.wantPing(t, b)
	other.wantPing(t, a)
	for _, says := range []string{"no permission to listen on port 988; listening on another port", "CAP_NET_BIND_SERVICE"} {
		if !strings.Contains(one.Log.String(), says) {
			t.Errorf("the log lacks %q:\n%s", says, one.Log)
		}
	}
	other.Stop(t)
	one.Stop(t)
}

// sanity-lnet 5 (109)
//
// Given an interface with an alias, when lnetd is configured with both, in either order, then it
// has two NIs with the two addresses.
func TestAlias(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	namespace.IP(t, "-n", a.name, "addr", "add", "10.213.200.1/24", "dev", "eth0", "label", "eth0:0")
	for _, nets := range []string{"tcp(eth0:0,eth0)", "tcp(eth0,eth0:0)"} {
		d := a.run(t, nil, nil, nil, program(t, "lnetd"), "--control-socket", a.socket(), "--net", nets)
		out := d.Must(t, "net", "show")
		for _, nid := range []string{a.nid(), "10.213.200.1@tcp"} {
			if !strings.Contains(out, "nid: "+nid+"\n") {
				t.Errorf("%s: no NI %s:\n%s", nets, nid, out)
			}
		}
		d.Must(t, "ping", a.nid(), "10.213.200.1@tcp")
		d.Stop(t)
	}
}
