package proxies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A router has an NI that a proxy serves, one over TCP and one over RDMA. Nodes of the three nets ping each other
// through it, and PUT and GET payloads of all sizes, in each direction. Payloads are received by the proxies before
// the node has a place for them, or after.
//
// UP-1, UP-6, UP-7, MPI-28
func TestRoutes(t *testing.T) {
	for name, ahead := range map[string]int{"header first": -1, "payload ahead": 0} {
		t.Run(name, func(t *testing.T) {
			all := startRouted(t, ahead)
			r := rand.New(rand.NewPCG(1, 1))
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			for _, from := range all {
				for _, to := range all {
					if from == to {
						continue
					}
					if _, err := from.node.Ping(ctx, to.id, node.PingOptions{}); err != nil {
						t.Errorf("%s pings %s: %v", from.id, to.id, err)
					}
					for _, n := range []int{0, 1, 8, 4095, 4096, 4097, 65_536, 1_000_001, lnet.MTU} {
						if err := from.put(ctx, to, r, n); err != nil {
							t.Errorf("PUT of %d bytes from %s to %s: %v", n, from.id, to.id, err)
						}
						if err := from.get(ctx, to, r, n); err != nil {
							t.Errorf("GET of %d bytes by %s from %s: %v", n, from.id, to.id, err)
						}
					}
				}
			}
			for _, s := range all {
				within(t, "all PUTs have been read", func() bool { return s.puts.Load() == 18 })
			}
		})
	}
}

// startRouted starts a router and a station on each of three nets. Proxies receive up to ahead bytes of a payload
// before the node has a place for them.
func startRouted(t *testing.T, ahead int) []*station {
	t.Helper()
	const port, proxyPort = 9972, 9973
	s := newServer(t, uplnd.Config{})
	f := fabric.New(fabric.Config{Report: func(err error) { t.Error(err) }})
	t.Cleanup(f.Close)
	verbs := lnet.MakeNet(lnet.TypeO2IB, 0)
	nets := []struct {
		gateway, nid lnet.NID
		drivers      [2]lnd.Driver // of the router and of the station
	}{
		{loopback(tcp(7), 1), loopback(tcp(7), 2), [2]lnd.Driver{s.Driver(lnet.TypeTCP, ""), s.Driver(lnet.TypeTCP, "")}},
		{loopback(tcp(0), 3), loopback(tcp(0), 4), [2]lnd.Driver{newDriver(t, "", port), newDriver(t, "", port)}},
		{loopback(verbs, 5), loopback(verbs, 6), [2]lnd.Driver{newO2iblnd(t, f, loopback(verbs, 5)), newO2iblnd(t, f, loopback(verbs, 6))}},
	}
	router := newNode(t, node.Config{Routing: true})
	var all []*station
	for k, net := range nets {
		n := newNode(t, node.Config{})
		addNI(t, router, net.drivers[0], net.gateway)
		addNI(t, n, net.drivers[1], net.nid)
		all = append(all, newStation(t, n, uint64(1+k)))
	}
	for k, n := range []*node.Node{router, all[0].node} {
		nid := []lnet.NID{nets[0].gateway, nets[0].nid}[k]
		enter(t, order{Role: "proxy", Socket: s.socket, NID: nid.String(), Port: proxyPort, Ahead: ahead})
		awaitLink(t, n, nid, lnd.LinkUp)
	}
	for k, s := range all {
		for j, other := range all {
			if k == j {
				continue
			}
			if err := s.node.Admin().AddRoute(t.Context(), other.id.NID.Net(), nets[k].gateway, node.RouteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// newO2iblnd returns a driver on a host of a fabric that has the address of a NID.
func newO2iblnd(t *testing.T, f *fabric.Fabric, nid lnet.NID) *o2iblnd.Driver {
	t.Helper()
	h := f.Host(fmt.Sprint("host of ", nid))
	h.AddDevice(nid.IP().String())
	proc := h.Open()
	c := o2iblnd.DefaultConfig()
	c.Provider, c.Host, c.Wall = proc, h, proc.Wall
	c.Keepalive = time.Second
	d, err := o2iblnd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), proc.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}
