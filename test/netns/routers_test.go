package netns

import (
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// large has messages that fill one of a router's large buffers each.
var large = Plan{Sizes: []int{mebibyte}, Rate: 10, Window: 1 << 10}

// Given three networks with a host on each and a router on all of them, when the hosts send to each other
// through it, then every message of 1 MiB and less arrives through the router. When the router is killed
// under load, operations in progress fail with the right error and the routes go down. When it runs
// again, the routes come up and messages pass, without a restart of any other node.
func TestRouter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	gateway := w.host(t, 0, 1, 2)
	router := gateway.startWith(t, &configuration{router: true})
	var hosts []*loadedDaemon
	for network := range 3 {
		c := &configuration{}
		for to := range 3 {
			if to != network {
				c.routes = append(c.routes, route{to: to, on: network, gateway: gateway, hops: 1})
			}
		}
		hosts = append(hosts, w.host(t, network).startLoaded(t, c))
	}
	client, other, server := hosts[0], hosts[1], hosts[2]
	for _, h := range hosts {
		h.wantRoutes(t, announced+lateness, 2)
	}

	wantLines(t, client.Must(t, "route", "show", "-v", "--net", "tcp2"),
		"net: tcp2", "gateway: "+gateway.nidOn(0), "hop: 1", "state: up", "type: single-hop")
	wantLines(t, router.Must(t, "routing", "show"),
		"tiny:", "npages: 0", "small:", "npages: 1", "large:", "npages: 256", "enable: 1", "large: 1024")

	before := router.counters(t)
	loads := []*load{client.begin(t, server, large), server.begin(t, other, large), other.begin(t, client, mixed)}
	for _, l := range loads {
		l.awaitProgress(t, 30, noticePatience)
	}
	var bytes uint64
	for _, l := range loads {
		r := l.end(t)
		r.wantNoFailure(t)
		bytes += r.Bytes
	}
	after := router.counters(t)
	t.Logf("the router passed %d messages of %.1f MB on", after.Routed-before.Routed, float64(after.RoutedBytes-before.RoutedBytes)/1e6)
	if routed := after.RoutedBytes - before.RoutedBytes; routed < bytes {
		t.Errorf("the router passed %d bytes on, want at least the %d of the operations", routed, bytes)
	}

	wantLines(t, client.Must(t, "explain", server.host.nid()),
		fmt.Sprintf("path  %s -> %s (gateway) -> %s", client.host.nid(), gateway.nidOn(0), server.host.nid()))

	l := client.begin(t, server, mixed)
	l.awaitProgress(t, 100, noticePatience)
	router.Kill(t)
	killed := time.Now()
	client.wantRoutes(t, noticePatience, 0)
	server.wantRoutes(t, noticePatience, 0)
	wantLines(t, client.Must(t, "route", "show", "-v", "--net", "tcp2"), "net: tcp2", "state: down")
	t.Logf("routes are down %v after the router's death", time.Since(killed).Round(time.Millisecond))
	router = gateway.startWith(t, &configuration{router: true})
	revived := time.Now()
	for _, h := range hosts {
		h.wantRoutes(t, announced+noticePatience, 2)
	}
	l.awaitProgress(t, 100, noticePatience)
	t.Logf("messages pass %v after the router is back", time.Since(revived).Round(time.Millisecond))
	again := time.Now()
	l.awaitProgress(t, 200, noticePatience)
	r := l.end(t)
	r.wantCleanFailures(t, unreachable)
	r.wantNoneFailed(t, "once messages pass again", again, time.Now())
	for _, h := range hosts {
		h.wantRest(t)
		h.Stop(t)
	}
	router.wantRest(t)
	router.Stop(t)
}

// wantRoutes waits until exactly up of the daemon's routes are up.
func (d *daemon) wantRoutes(t *testing.T, patience time.Duration, up int) {
	t.Helper()
	daemontest.Within(t, patience, fmt.Sprintf("%d routes of %s up", up, d.host.nid()), func() error {
		n := 0
		for _, r := range d.routes(t) {
			if r.Up {
				n++
			}
		}
		if n != up {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// Given a client and a server with two routers between them, under load that both routers carry, when one
// dies, then messages on it fail with the right error, the other carries all traffic, and nothing that
// begins after the death is detected fails. Detection is immediate if the router's system closes its
// connections, and takes the time limit for dead connections if it has lost power. When the router is
// back, both carry traffic.
func TestTwoRouters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		die     func(t *testing.T, h *host, d *daemon)
		noticed time.Duration
	}{
		{"killed", func(t *testing.T, _ *host, d *daemon) { d.Kill(t) }, told},
		{"without power", func(t *testing.T, h *host, d *daemon) {
			for _, network := range h.networks {
				pull(t, network, h)
			}
			d.Kill(t)
		}, moved},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			gateways := []*host{w.host(t, 0, 1), w.host(t, 0, 1)}
			var routers []*daemon
			routes := [2][]route{}
			for _, g := range gateways {
				routers = append(routers, g.startWith(t, &configuration{router: true}))
				routes[0] = append(routes[0], route{to: 1, on: 0, gateway: g, hops: 1})
				routes[1] = append(routes[1], route{to: 0, on: 1, gateway: g, hops: 1})
			}
			client := w.host(t, 0).startLoaded(t, &configuration{routes: routes[0]})
			server := w.host(t, 1).startLoaded(t, &configuration{routes: routes[1]})
			for _, p := range []*loadedDaemon{client, server} {
				p.wantRoutes(t, announced+lateness, 2)
			}
			loads := []*load{client.begin(t, server, mixed), server.begin(t, client, mixed)}
			for _, l := range loads {
				l.awaitProgress(t, 100, noticePatience)
			}
			wantRouting(t, noticePatience, routers...)

			c.die(t, gateways[0], routers[0])
			died := time.Now()
			for _, p := range []*loadedDaemon{client, server} {
				p.wantRoutes(t, c.noticed+lateness, 1)
			}
			t.Logf("its routes are down %v after the router's death", time.Since(died).Round(time.Millisecond))
			wantRouting(t, noticePatience, routers[1])
			for _, l := range loads {
				l.awaitProgress(t, 100, noticePatience)
			}

			for _, network := range gateways[0].networks {
				plug(t, network, gateways[0])
			}
			routers[0] = gateways[0].startWith(t, &configuration{router: true})
			revived := time.Now()
			for _, p := range []*loadedDaemon{client, server} {
				p.wantRoutes(t, announced+noticePatience, 2)
			}
			wantRouting(t, noticePatience, routers...)
			t.Logf("both carry %v after it is back", time.Since(revived).Round(time.Millisecond))
			for _, l := range loads {
				r := l.end(t)
				r.wantCleanFailures(t)
				r.wantNoStall(t)
				if len(r.Failures) > 0 {
					t.Logf("the last that failed began %v after the death", r.lastBegun().Sub(died).Round(time.Millisecond))
				}
				r.wantNoneFailed(t, "once the death must have been noticed", died.Add(c.noticed), time.Now())
			}
			for _, p := range []*loadedDaemon{client, server} {
				p.wantRest(t)
				p.Stop(t)
			}
			for _, d := range routers {
				d.wantRest(t)
				d.Stop(t)
			}
		})
	}
}

// Given three networks in a row with a router between each two, when the hosts at
// the ends send to each other, then messages of 1 MiB pass both routers, with
// discovery and without.
//
// sanity-lnet 8 (220), 8 (221)
func TestRouterChain(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"discovery": false, "no discovery": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRouterChain(t, alone)
		})
	}
}

func testRouterChain(t *testing.T, alone bool) {
	t.Helper()
	w := newWorld(t, 3)
	near, far := w.host(t, 0, 1), w.host(t, 1, 2)
	routers := []*daemon{
		near.startWith(t, &configuration{patient: true, alone: alone, router: true, routes: []route{{to: 2, on: 1, gateway: far, hops: 1}}}),
		far.startWith(t, &configuration{patient: true, alone: alone, router: true, routes: []route{{to: 0, on: 1, gateway: near, hops: 1}}}),
	}
	client := w.host(t, 0).startLoaded(t, &configuration{patient: true, alone: alone, routes: []route{{to: 2, on: 0, gateway: near, hops: 2}}})
	server := w.host(t, 2).startLoaded(t, &configuration{patient: true, alone: alone, routes: []route{{to: 0, on: 2, gateway: far, hops: 2}}})
	ends := []*loadedDaemon{client, server}
	for _, d := range append(routers, client.daemon, server.daemon) {
		d.wantRoutes(t, announced+lateness, 1)
	}
	wantLines(t, client.Must(t, "route", "show", "-v"), "hop: 2", "state: up", "type: multi-hop")
	loads := []*load{client.begin(t, server, large), server.begin(t, client, large), client.begin(t, server, mixed)}
	for _, l := range loads {
		l.awaitProgress(t, 30, noticePatience)
	}
	var bytes uint64
	for _, l := range loads {
		r := l.end(t)
		r.wantNoFailure(t)
		bytes += r.Bytes
	}
	for _, d := range routers {
		if c := d.counters(t); c.RoutedBytes < bytes {
			t.Errorf("%s passed %d bytes on, want at least the %d of the operations", d.host.nid(), c.RoutedBytes, bytes)
		}
		d.wantRest(t)
	}
	for _, p := range ends {
		p.wantRest(t)
		p.Stop(t)
	}
	for _, d := range routers {
		d.Stop(t)
	}
}

// wantRouting waits until each of the routers has forwarded messages.
func wantRouting(t *testing.T, patience time.Duration, routers ...*daemon) {
	t.Helper()
	for _, d := range routers {
		before := d.counters(t).Routed
		daemontest.Within(t, patience, "messages pass through "+d.host.nid(), func() error {
			if n := d.counters(t).Routed - before; n < 50 {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
	}
}
