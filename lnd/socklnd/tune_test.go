package socklnd

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// TestTunedConnsPerPeer: after conns_per_peer is raised, a connected peer gets the additional
// connections with the next message. After it is lowered, the peer keeps those it has.
//
// sanity-lnet 5 (230)
// lnetctl 4.5 (3)
func TestTunedConnsPerPeer(t *testing.T) {
	n := start(t, nil)
	exchange := func() {
		s := n.put(n.id(), 100)
		n.arrival()
		s.done()
		n.awaitSettled(n.id())
	}
	exchange()
	for count := 4; count <= 15; count++ {
		if err := n.Tune(lnd.Values{"conns_per_peer": int64(count)}); err != nil {
			t.Fatal(err)
		}
		if got := n.Options()["conns_per_peer"]; got != int64(count) {
			t.Errorf("conns_per_peer %d, shown as %d", count, got)
		}
		exchange()
		if got := n.counter("connections"); got != uint64(2+2*count) {
			t.Errorf("conns_per_peer %d: %d ends of connections, want %d", count, got, 2+2*count)
		}
	}
	if err := n.Tune(lnd.Values{"conns_per_peer": 128}); err == nil {
		t.Error("128 was taken")
	}
	if got := n.Options()["conns_per_peer"]; got != 15 {
		t.Errorf("after a refusal conns_per_peer is %d, want 15", got)
	}
	if err := n.Tune(lnd.Values{"conns_per_peer": 1}); err != nil {
		t.Fatal(err)
	}
	exchange()
	if got := n.counter("connections"); got != 32 {
		t.Errorf("of 32 ends there are %d, after 1 was asked for", got)
	}
}

// sanity-lnet 5 (241)
// lnetctl 4.5 (3)
func TestTunedTimeout(t *testing.T) {
	n := start(t, func(c *Config) { c.SockTimeout = 20 * time.Second })
	for _, want := range []struct{ given, inForce time.Duration }{
		{65 * time.Second, 65 * time.Second},
		{0, defaultTimeout}, // the fixture's upper has no timeout
	} {
		if err := n.Tune(lnd.Values{"timeout": int64(want.given / time.Second)}); err != nil {
			t.Fatal(err)
		}
		if got := n.Timeout(); got != want.inForce {
			t.Errorf("timeout %s: in force is %s", want.given, got)
		}
	}
	if err := n.Tune(nil); err != nil || n.Timeout() != 20*time.Second {
		t.Errorf("without options: timeout %s, error %v, want the driver's", n.Timeout(), err)
	}
	if err := n.Tune(lnd.Values{"timeout": -1}); err == nil {
		t.Error("a negative timeout was taken")
	}
}
