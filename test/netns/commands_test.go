package netns

import (
	"fmt"
	"strings"
	"testing"
)

// Given two nodes with two networks, when one discovers the other, then it shows both NIDs as one healthy
// peer. Under load, when a policy gives tcp1 a priority, then explain reports it and all traffic moves to
// tcp1. When the policy is deleted, both rails carry traffic again. Nothing fails at any time.
func TestPolicy(t *testing.T) {
	t.Parallel()
	_, a, b := rails(t, &configuration{patient: true})
	want := fmt.Sprintf("discover:\n- primary nid: %[1]s\n  Multi-Rail: true\n  peer_ni:\n  - nid: %[1]s\n  - nid: %[2]s\n", b.host.nidOn(0), b.host.nidOn(1))
	if out := a.Must(t, "discover", b.host.nidOn(1)); out != want {
		t.Errorf("discover:\n%swant\n%s", out, want)
	}
	peer := a.Must(t, "peer", "show", "-v", "3", "--nid", b.host.nid())
	wantLines(t, peer, "primary nid: "+b.host.nid(), "Multi-Rail: true",
		"nid: "+b.host.nidOn(0), "health value: 1000", "nid: "+b.host.nidOn(1), "health value: 1000")

	l := a.begin(t, b, mixed)
	l.wantCarrying(t, noticePatience)
	if out := a.Must(t, "udsp", "add", "--src", "tcp1", "--priority", "0"); out != "" {
		t.Errorf("udsp add: %s", out)
	}
	wantLines(t, a.Must(t, "udsp", "show"), "idx: 0", "src: tcp1", "priority: 0")
	why := a.Must(t, "explain", b.host.nid())
	wantLines(t, why, fmt.Sprintf("path  %s -> %s", a.host.nidOn(1), b.host.nidOn(1)), "> tcp1  net priority 0, the next has none", "tcp   net priority none, the one above has 0")
	l.awaitProgress(t, 50, noticePatience) // messages with an older choice of path have left
	tcp, tcp1 := a.traffic(t, 0), a.traffic(t, 1)
	l.awaitProgress(t, 200, noticePatience)
	// A ping of discovery or of recovery may use tcp.
	if n := a.traffic(t, 0).since(tcp).sent; n > 2 {
		t.Errorf("with the policy %d messages were sent on tcp", n)
	}
	if n := a.traffic(t, 1).since(tcp1).sent; n < 200 {
		t.Errorf("with the policy %d messages were sent on tcp1, want at least 200", n)
	}

	a.Must(t, "udsp", "del", "--idx", "0")
	if out := a.Must(t, "udsp", "show"); out != "" {
		t.Errorf("udsp show after the deletion:\n%s", out)
	}
	l.wantCarrying(t, noticePatience)
	l.end(t).wantNoFailure(t)
	a.wantRest(t)
	b.wantRest(t)
	a.Stop(t)
	b.Stop(t)
}

// wantLines checks that a text has lines that contain the given ones, in this order.
func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	rest := strings.Split(text, "\n")
	for _, want := range lines {
		for len(rest) > 0 && !strings.Contains(rest[0], want) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			t.Errorf("no %q in its place in\n%s", want, text)
			return
		}
		rest = rest[1:]
	}
}
