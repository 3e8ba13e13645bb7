package netns

import (
	"context"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// State of a daemon, as values. Tests check the text of commands only where it matters.

// ask sends a request to the control socket.
func ask[T any](t *testing.T, d *daemon, question func(context.Context, *client.Client) (T, error)) T {
	t.Helper()
	c := client.New(d.Socket)
	defer c.Close()
	answer, err := question(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// ni returns the NI on a network.
func (d *daemon) ni(t *testing.T, network int) api.NI {
	t.Helper()
	nets := ask(t, d, func(ctx context.Context, c *client.Client) ([]api.Net, error) {
		return c.Nets(ctx, lnetOf(network))
	})
	return nets[0].NIs[0]
}

// counter returns a counter of the driver on the NI of the first network.
func (d *daemon) counter(t *testing.T, name string) uint64 {
	t.Helper()
	ni := d.ni(t, d.host.networks[0])
	for _, k := range ni.Counters {
		if k.Name == name {
			return k.Value
		}
	}
	t.Fatalf("no counter %s in %+v", name, ni.Counters)
	return 0
}

// traffic is the number of messages that an NI has sent and received.
type traffic struct{ sent, received uint64 }

func (d *daemon) traffic(t *testing.T, network int) traffic {
	t.Helper()
	s := d.ni(t, network).Statistics
	return traffic{sent: s.Sent, received: s.Received}
}

// since returns the difference to an earlier reading.
func (c traffic) since(before traffic) traffic {
	return traffic{sent: c.sent - before.sent, received: c.received - before.received}
}

func (d *daemon) routes(t *testing.T) []api.Route {
	t.Helper()
	return ask(t, d, func(ctx context.Context, c *client.Client) ([]api.Route, error) {
		return c.Routes(ctx, api.AllRoutes)
	})
}

// health returns the health of the peer NI with a NID, or -1 if it does not exist.
func (d *daemon) health(t *testing.T, nid string) int {
	t.Helper()
	peers := ask(t, d, func(ctx context.Context, c *client.Client) ([]api.Peer, error) { return c.Peers(ctx, "") })
	for _, p := range peers {
		for _, ni := range p.NIs {
			if ni.NID.String() == nid {
				return ni.Health.Value
			}
		}
	}
	return -1
}

// trouble returns the reported trouble of the peer NI with a NID.
func (d *daemon) trouble(t *testing.T, nid string) string {
	t.Helper()
	peers := ask(t, d, func(ctx context.Context, c *client.Client) ([]api.Peer, error) { return c.Peers(ctx, nid) })
	for _, p := range peers {
		for _, ni := range p.NIs {
			if ni.NID.String() == nid {
				return ni.Trouble
			}
		}
	}
	return ""
}

// closedConnections returns how many connections on a network the daemon has closed.
func (d *daemon) closedConnections(t *testing.T, network int) uint64 {
	t.Helper()
	for _, k := range d.ni(t, network).Counters {
		if k.Name == "closes_total" {
			return k.Value
		}
	}
	t.Fatal("no counter closes_total")
	return 0
}

func (d *daemon) counters(t *testing.T) api.Counters {
	t.Helper()
	return ask(t, d, func(ctx context.Context, c *client.Client) (api.Stats, error) { return c.Stats(ctx) }).Counters
}
