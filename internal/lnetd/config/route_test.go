package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/node"
)

// lnetctl 9.2
func TestRoutes(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Route
	}{
		{"as lnetctl exports it", `
route:
-     net: tcp9
      gateway: 10.0.0.2@tcp
      hop: -1
      priority: 0
      state: down
      type: multi-hop
-     net: o2ib
      gateway: 10.0.0.3@tcp
      hop: 255
      priority: 4
      health_sensitivity: 1
`, []Route{
			{Net: netOf(t, "tcp9"), Gateway: nidOf(t, "10.0.0.2@tcp"), Where: "f:3: route[0]"},
			{Net: netOf(t, "o2ib"), Gateway: nidOf(t, "10.0.0.3@tcp"),
				RouteOptions: node.RouteOptions{Hops: 255, Priority: 4}, Where: "f:9: route[1]"},
		}},
		{"a range of nets", "route: [{net: \"tcp[8-9]\", gateway: 10.0.0.1@tcp}]\n", []Route{
			{Net: netOf(t, "tcp8"), Gateway: nidOf(t, "10.0.0.1@tcp"), Where: "f:1: route[0]"},
			{Net: netOf(t, "tcp9"), Gateway: nidOf(t, "10.0.0.1@tcp"), Where: "f:1: route[0]"},
		}},
		{"a range of gateways", "route:\n  - {net: tcp1, gateway: '10.0.0.[1-3/2]@tcp', hop: 1}\n", []Route{
			{Net: netOf(t, "tcp1"), Gateway: nidOf(t, "10.0.0.1@tcp"), RouteOptions: node.RouteOptions{Hops: 1}, Where: "f:2: route[0]"},
			{Net: netOf(t, "tcp1"), Gateway: nidOf(t, "10.0.0.3@tcp"), RouteOptions: node.RouteOptions{Hops: 1}, Where: "f:2: route[0]"},
		}},
		{"no hop count, unsigned", "route: [{net: tcp1, gateway: 1@gni, hop: 4294967295}]\n",
			[]Route{{Net: netOf(t, "tcp1"), Gateway: nidOf(t, "1@gni"), Where: "f:1: route[0]"}}},
		{"none", "route:\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, mustParse(t, tt.text).Routes, alike); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lnetctl 9.2
func TestRouteErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"nothing", "route:\n  - hop: 1\n", []string{
			`f:2: route[0]: the key "net" is missing`, `f:2: route[0]: the key "gateway" is missing`,
		}},
		{"net", "route:\n  - net: foo\n    gateway: 1@gni\n", []string{"f:2: route[0].net: "}},
		{"too many nets", "route:\n  - net: tcp[1-9999]\n    gateway: 1@gni\n", []string{"f:2: route[0].net: "}},
		{"net is lo", "route:\n  - net: lo\n    gateway: 1@gni\n", []string{"f:2: route[0].net: lo is not a remote net"}},
		{"gateway", "route:\n  - net: tcp\n    gateway: 1@foo\n", []string{"f:3: route[0].gateway: "}},
		{"gateway is 0@lo", "route:\n  - net: gni\n    gateway: 0@lo\n",
			[]string{"f:3: route[0].gateway: 0@lo cannot be a gateway to gni"}},
		{"hop 0", "route:\n  - {net: tcp, gateway: 1@gni, hop: 0}\n", []string{"f:2: route[0].hop: 0 is not in 1 to 255"}},
		{"hop 256", "route:\n  - {net: tcp, gateway: 1@gni, hop: 256}\n", []string{"f:2: route[0].hop: 256 is not in 1 to 255"}},
		{"hop is a word", "route:\n  - {net: tcp, gateway: 1@gni, hop: one}\n", []string{`f:2: route[0].hop: "one" is not a whole number`}},
		{"priority", "route:\n  - {net: tcp, gateway: 1@gni, priority: -1}\n", []string{"f:2: route[0].priority: -1 is not in 0 to 2147483647"}},
	})
}

// If a net has two routes by the same gateway, the first one is used and a warning is given.
func TestRouteTwice(t *testing.T) {
	c := mustParse(t, "route:\n  - {net: tcp7, gateway: '10.0.0.[1-2]@tcp'}\n  - {net: tcp7, gateway: 10.0.0.2@tcp, hop: 2}\n")
	want := []string{"f:3: route[1]: the route to tcp7 through 10.0.0.2@tcp occurs twice: the first one is used"}
	if diff := cmp.Diff(want, plain(c.Warnings)); diff != "" || len(c.Routes) != 2 || c.Routes[1].Hops != 0 {
		t.Errorf("%s\n%+v", diff, c.Routes)
	}
}
