package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given a NID and no net, when an NI is added, then the NI is on the net of the NID. Any
// driver gets that net in its configuration, and an error names it.
func TestAddNITakesTheNetFromTheNID(t *testing.T) {
	sim := simlnd.New(simlnd.Config{})
	t.Cleanup(sim.Close)
	inner, err := simlnd.NewDriver(sim.Host("host", "10.0.0.1"), driverConfig())
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, inner)
	nid := parseNID(t, "10.0.0.1@tcp3")
	for name, d := range map[string]lnd.Driver{"socklnd": inner, "fabric": &driver{fabric: newFabric(), typ: lnet.TypeTCP}} {
		n := newNode(t, node.Config{})
		info, err := n.AddNI(context.Background(), d, lnd.Config{NID: nid})
		if err != nil || info.NID != nid || info.Net != nid.Net() {
			t.Errorf("%s: %v, %s on %s; want %s", name, err, info.NID, info.Net, nid)
		}
		if _, err := n.AddNI(context.Background(), d, lnd.Config{NID: nid}); !errors.Is(err, node.ErrExists) || !strings.Contains(err.Error(), "tcp3") {
			t.Errorf("%s, again: %v", name, err)
		}
	}
}

// Given neither a net nor a NID, or no driver, when an NI is added, then AddNI returns
// ErrInvalid.
func TestAddNIWantsANetAndADriver(t *testing.T) {
	n := newNode(t, node.Config{})
	for name, row := range map[string]struct {
		d lnd.Driver
		c lnd.Config
	}{
		"no net":    {&driver{fabric: newFabric(), typ: lnet.TypeTCP}, lnd.Config{Device: "eth0"}},
		"no driver": {nil, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")}},
		"nothing":   {},
	} {
		if _, err := n.AddNI(context.Background(), row.d, row.c); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
