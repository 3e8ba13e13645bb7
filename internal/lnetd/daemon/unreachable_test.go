package daemon

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

func stepTexts(e *selection.Explanation) (texts []string) {
	for _, s := range e.Steps {
		texts = append(texts, s.What)
	}
	return texts
}

// The error of a ping, a discovery and an explanation without a path contains the cause: no NI
// and no route, an NI that waits, a route whose gateway's net waits, or a gateway that is down.
// Each has its own remedy.
func TestUnreachableHasACause(t *testing.T) { synctest.Test(t, testUnreachable) }

func testUnreachable(t *testing.T) {
	r := startNode(t, parse(t, `
net:
  - {net: tcp, interfaces: [eth0]}
  - {net: tcp3, interfaces: [eth9]}
route:
  - {net: tcp5, gateway: 10.79.0.1@tcp3}
  - {net: tcp6, gateway: 10.77.0.77@tcp}
`)).ready(t)
	synctest.Wait() // until discovery of the gateway has ended
	for _, c := range []struct{ to, cause, remedy string }{
		{"10.9.9.9@tcp7", "this node has no NI on tcp7 and no route to it", "lnetdctl route add --net tcp7 --gateway NID"},
		{"10.9.9.9@o2ib", "this node has no NI on o2ib and no route to it", "lnetdctl route add --net o2ib"},
		{"10.9.9.9@tcp3", `NI tcp3(eth9) is not up: "eth9": no such network device`, "lnetdctl net show"},
		{"10.9.9.9@tcp5", "the route through 10.79.0.1@tcp3 is waiting for an NI on tcp3: NI tcp3(eth9) is not up", "lnetdctl net show"},
		{"10.9.9.9@tcp6", "the route through 10.77.0.77@tcp is down: the gateway ", "lnetdctl ping 10.77.0.77@tcp"},
	} {
		to := nid(t, c.to)
		_, ping := r.Ping(t.Context(), lnet.ProcessID{NID: to}, lnet.NID{})
		e := r.Explain(to, lnet.NID{}, 1)
		for what, err := range map[string]error{"ping": ping, "explain": e.Err} {
			u, ok := errors.AsType[*server.UnreachableError](err)
			if !ok || !strings.HasPrefix(u.Cause, c.cause) || !strings.Contains(u.Remedy, c.remedy) || server.Errno(err) != syscall.EHOSTUNREACH {
				t.Errorf("%s: %s: %v (%+v)", c.to, what, err, u)
			}
		}
		waits := slices.ContainsFunc(stepTexts(&e), func(s string) bool { return strings.HasPrefix(s, "here: NI tcp3(eth9) is not up") })
		if waits != (to.Net().String() == "tcp3") {
			t.Errorf("%s: explained by %v", c.to, stepTexts(&e))
		}
	}
	if e := r.Explain(nid(t, "10.77.0.99@tcp"), lnet.NID{}, 1); e.Err != nil {
		t.Errorf("a path that there is: %v", e.Err)
	}
}

// This node is not its own peer. It cannot be added as one, its own messages and a document do
// not create one, and other peers do not have its NIDs.
//
// decisions 97
func TestThisNodeIsNoPeer(t *testing.T) {
	r := startNode(t, parse(t, "net: [{net: tcp, interfaces: [eth0]}, {net: tcp1, interfaces: [eth1]}]\n")).ready(t)
	own := nid(t, "10.77.0.11@tcp")
	_, _ = r.Ping(t.Context(), lnet.ProcessID{NID: own}, lnet.NID{}) // leaves an entry
	for _, nids := range [][]lnet.NID{{own}, {nid(t, "10.77.0.50@tcp"), own}} {
		if err := r.AddPeer(t.Context(), nids[0], nids[1:], discovery.ConfigureOptions{}); !errors.Is(err, discovery.ErrInvalid) {
			t.Errorf("add peer %v: %v", nids, err)
		}
	}
	const text = `
peer:
  - {primary nid: 10.77.0.11@tcp, peer ni: [{nid: 10.77.0.11@tcp}]}
  - {primary nid: 10.77.0.12@tcp, peer ni: [{nid: 10.77.0.12@tcp}, {nid: 10.78.0.11@tcp1}]}
`
	for range 2 { // the second time, nothing is left to do
		if _, err := r.document(t, api.ModeAdd, text); err != nil {
			t.Fatal(err)
		}
	}
	if got := peerTexts(r.peers(t)); len(got) != 1 || !strings.HasPrefix(got[0], "10.77.0.12@tcp: 10.77.0.12@tcp ") {
		t.Errorf("configured peers %q", got)
	}
	for p, err := range r.Peers(t.Context(), 0) {
		for _, i := range p.NIs {
			if err != nil || i.NID == own || i.NID == nid(t, "10.78.0.11@tcp1") {
				t.Errorf("peer %+v, %v", p, err)
			}
		}
	}
}
