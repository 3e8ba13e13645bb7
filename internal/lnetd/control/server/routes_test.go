package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func localNets() []api.Net {
	return []api.Net{{Net: tcp, NIs: []api.NI{{NID: nid("10.0.0.1@tcp")}}}}
}

// TestAddRoutes checks that either all routes of a request are added or none.
func TestAddRoutes(t *testing.T) {
	d := &controltest.Daemon{NetList: localNets()}
	c, _ := serve(t, d)
	err := c.AddRoutes(t.Context(), api.RouteAddition{
		Net: tcp9, Gateways: nids("10.0.0.7@tcp", "10.0.0.8@tcp", "10.0.0.7@tcp"), Hops: 2, Priority: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantDone(t, d, "AddRoute tcp9 10.0.0.7@tcp 2 3", "AddRoute tcp9 10.0.0.8@tcp 2 3")

	d.Done = nil
	err = c.AddRoutes(t.Context(), api.RouteAddition{Net: tcp9, Gateways: nids("10.0.0.5@tcp", "10.0.0.6@tcp", "10.0.0.8@tcp")})
	wantFault(t, err, api.CodeRouteRefused, syscall.EEXIST, "Route already exists or the specified network is local")
	wantDone(t, d,
		"AddRoute tcp9 10.0.0.5@tcp 0 0", "AddRoute tcp9 10.0.0.6@tcp 0 0",
		"DeleteRoute tcp9 10.0.0.5@tcp", "DeleteRoute tcp9 10.0.0.6@tcp")

	d.Done = nil
	for _, tt := range []struct {
		name string
		r    api.RouteAddition
		code api.Code
		no   syscall.Errno
		text string
	}{
		{"local net", api.RouteAddition{Net: tcp, Gateways: nids("10.0.0.7@tcp")}, api.CodeRouteRefused, syscall.EINVAL, "invalid settings for route creation"},
		{"far gateway", api.RouteAddition{Net: tcp9, Gateways: nids("10.0.0.7@tcp3")}, api.CodeRouteRefused, syscall.EHOSTUNREACH, "No interface configured on the same net as gateway"},
		{"hops", api.RouteAddition{Net: tcp9, Gateways: nids("10.0.0.5@tcp"), Hops: 256}, api.CodeRequestInvalid, syscall.EINVAL, "invalid hop count must be between 1 and 255"},
		{"priority", api.RouteAddition{Net: tcp9, Gateways: nids("10.0.0.5@tcp"), Priority: 1 << 31}, api.CodeRequestInvalid, syscall.EINVAL, "invalid priority"},
		{"no net", api.RouteAddition{Gateways: nids("10.0.0.5@tcp")}, api.CodeRequestInvalid, syscall.EINVAL, "request body cannot be read"},
		{"no gateway", api.RouteAddition{Net: tcp9}, api.CodeRequestInvalid, syscall.EINVAL, "a route needs a net and a gateway"},
		{"too many", api.RouteAddition{Net: tcp9, Gateways: make([]lnet.NID, api.RouteGatewaysMax+1)}, api.CodeRequestInvalid, syscall.E2BIG, "specifies more NIDs than allowed"},
		{"empty gateway", api.RouteAddition{Net: tcp9, Gateways: make([]lnet.NID, 1)}, api.CodeRequestInvalid, syscall.EINVAL, "a gateway is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantFault(t, c.AddRoutes(t.Context(), tt.r), tt.code, tt.no, tt.text)
			wantDone(t, d)
		})
	}
}

// TestAddRouteByDeadGateway checks that an unreachable gateway is reported differently from one
// that is on no local net.
func TestAddRouteByDeadGateway(t *testing.T) {
	d := &controltest.Daemon{Refuse: func(string) error { return peerError("", discovery.ErrPingFailed) }}
	c, _ := serve(t, d)
	err := c.AddRoutes(t.Context(), api.RouteAddition{Net: tcp9, Gateways: nids("10.0.0.5@tcp")})
	wantFault(t, err, api.CodeRouteRefused, syscall.EHOSTUNREACH, "cannot add route: No route to host")
}

// TestDeleteRoutes checks that either all routes of a request are deleted or none.
func TestDeleteRoutes(t *testing.T) {
	routes := func() []api.Route {
		return []api.Route{
			{Net: tcp9, Gateway: nid("10.0.0.5@tcp"), Hops: 4, Priority: 1},
			{Net: tcp9, Gateway: nid("10.0.0.6@tcp")},
		}
	}
	d := &controltest.Daemon{NetList: localNets(), RouteList: routes()}
	c, _ := serve(t, d)
	err := c.DeleteRoutes(t.Context(), api.RouteDeletion{Net: tcp9, Gateways: nids("10.0.0.5@tcp", "10.0.0.7@tcp")})
	wantFault(t, err, api.CodeRouteUnknown, syscall.ENOENT, "failed to delete route")
	wantDone(t, d)

	d.Refuse = func(operation string) error {
		if operation == "DeleteRoute tcp9 10.0.0.6@tcp" {
			return node.ErrClosed
		}
		return nil
	}
	both := api.RouteDeletion{Net: tcp9, Gateways: nids("10.0.0.5@tcp", "10.0.0.6@tcp")}
	wantFault(t, c.DeleteRoutes(t.Context(), both), api.CodeStopping, syscall.ESHUTDOWN, "Network is down")
	wantDone(t, d, "DeleteRoute tcp9 10.0.0.5@tcp", "AddRoute tcp9 10.0.0.5@tcp 4 1")

	d.Refuse = nil
	if err := c.DeleteRoutes(t.Context(), both); err != nil || len(d.RouteList) != 0 {
		t.Error(err, d.RouteList)
	}
}

// lnetctl 4.8
func TestRouteFilters(t *testing.T) {
	d := &controltest.Daemon{RouteList: []api.Route{
		{Net: tcp9, Gateway: nid("10.0.0.5@tcp"), Hops: 4, Priority: 1, Up: true, SingleHop: true},
		{Net: tcp9, Gateway: nid("10.0.0.6@tcp")},
		{Net: lnet.MakeNet(lnet.TypeO2IB, 0), Gateway: nid("10.0.0.5@tcp")},
	}}
	c, _ := serve(t, d)
	for _, tt := range []struct {
		name string
		f    api.RouteFilter
		want []int
	}{
		{"all", api.AllRoutes, []int{0, 1, 2}},
		{"net", api.RouteFilter{Net: "tcp9", Hops: -1, Priority: -1}, []int{0, 1}},
		{"gateway", api.RouteFilter{Gateway: "10.0.0.5@tcp", Hops: -1, Priority: -1}, []int{0, 2}},
		{"hops", api.RouteFilter{Hops: 4, Priority: -1}, []int{0}},
		{"no hops", api.RouteFilter{Hops: 0, Priority: -1}, []int{1, 2}},
		{"priority", api.RouteFilter{Hops: -1, Priority: 1}, []int{0}},
		{"none", api.RouteFilter{Net: "tcp8", Hops: -1, Priority: -1}, nil},
	} {
		got, err := c.Routes(t.Context(), tt.f)
		want := []api.Route{}
		for _, k := range tt.want {
			want = append(want, d.RouteList[k])
		}
		if diff := cmp.Diff(want, got, sameNID); diff != "" || err != nil {
			t.Error(tt.name, err, diff)
		}
	}
	_, err := c.Routes(t.Context(), api.RouteFilter{Net: "foo", Hops: -1, Priority: -1})
	wantFault(t, err, api.CodeNetUnknown, syscall.ENOENT, "cannot parse net")
}

func TestRouting(t *testing.T) {
	pool := api.Pool{Pages: 1, Buffers: 10, Credits: 9, MinCredits: -3}
	d := &controltest.Daemon{Forwards: api.Routing{
		State: api.RoutingStarting, Ever: true, CPTs: []api.Pools{{Tiny: pool, Small: pool, Large: pool}, {Large: pool}},
	}}
	c, _ := serve(t, d)
	r, err := c.Routing(t.Context())
	if diff := cmp.Diff(d.Forwards, r); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got, want := r.Buffers(), (api.Buffers{Tiny: 10, Small: 10, Large: 20}); got != want {
		t.Errorf("sum %+v, want %+v", got, want)
	}
	yes, n, bad := true, 600, -2
	if err := c.SetRouting(t.Context(), api.RoutingChange{Enabled: &yes}); err != nil {
		t.Error(err)
	}
	if err := c.SetRouting(t.Context(), api.RoutingChange{Small: &n}); err != nil {
		t.Error(err)
	}
	wantDone(t, d, "SetRouting true", "SetBuffers {Tiny:-1 Small:600 Large:-1}")
	err = c.SetRouting(t.Context(), api.RoutingChange{Large: &bad, Small: &n})
	wantFault(t, err, api.CodeParameterInvalid, syscall.ERANGE, "tiny, small and large must be >= 0")
	for _, r := range []api.RoutingChange{{}, {Enabled: &yes, Tiny: &n}} {
		wantFault(t, c.SetRouting(t.Context(), r), api.CodeRequestInvalid, syscall.EINVAL,
			"either enabled or numbers of buffers are needed")
	}
	d.Refuse = func(string) error { return node.ErrBusy }
	err = c.SetRouting(t.Context(), api.RoutingChange{Enabled: &yes})
	wantFault(t, err, api.CodeRoutingRefused, syscall.EBUSY, "cannot configure routing: Device or resource busy")
}

// TestChangesTakeTurns checks that changes are made one after the other, so that what a change has
// checked still holds when it acts. Questions do not wait for changes.
func TestChangesTakeTurns(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var under atomic.Int32
	d := &controltest.Daemon{NetList: localNets()}
	d.Refuse = func(operation string) error {
		defer under.Add(-1)
		if under.Add(1) > 1 {
			t.Error("two changes at once")
		}
		if strings.Contains(operation, "10.0.0.5@tcp") {
			close(begun)
			<-release
		}
		return nil
	}
	c, _ := serve(t, d)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		first <- c.AddRoutes(context.Background(), api.RouteAddition{Net: tcp9, Gateways: nids("10.0.0.5@tcp", "10.0.0.6@tcp")})
	}()
	<-begun
	go func() {
		second <- c.DeleteRoutes(context.Background(), api.RouteDeletion{Net: tcp9, Gateways: nids("10.0.0.6@tcp")})
	}()
	if _, err := c.Globals(t.Context()); err != nil {
		t.Error(err)
	}
	close(release)
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	wantDone(t, d, "AddRoute tcp9 10.0.0.5@tcp 0 0", "AddRoute tcp9 10.0.0.6@tcp 0 0", "DeleteRoute tcp9 10.0.0.6@tcp")
}
