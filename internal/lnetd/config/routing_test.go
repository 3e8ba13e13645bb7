package config

import (
	"testing"

	"github.com/lnetd/lnetd/node"
)

// lnetctl 9.4
func TestRouting(t *testing.T) {
	tests := []struct {
		name, text string
		routing    Routing
		buffers    node.Buffers
	}{
		{"nothing", "", RoutingOff, node.Buffers{}},
		{"mapping", "routing:\n    enable: 1\nbuffers:\n    tiny: 1\n    small: 2\n    large: 3\n", RoutingOn, node.Buffers{Tiny: 1, Small: 2, Large: 3}},
		{"disabled", "routing: {enable: 0}\nbuffers: {tiny: 0, small: 0, large: 0}\n", RoutingOff, node.Buffers{}},
		{"list", "routing:\n    - cpt[0]:\n          tiny:\n              npages: 0\n    - enable: 1\n", RoutingOn, node.Buffers{}},
		{"starting", "routing: [{\"cpt[0]\": {}}, {enable: 3}]\n", RoutingOn, node.Buffers{}},
		{"stopping", "routing: [{enable: 2}]\n", RoutingOff, node.Buffers{}},
		{"the last one counts", "routing: {enable: 1}\nbuffers: {tiny: 9, small: 9}\nrouting: {enable: 0}\nbuffers: {small: -1}\n",
			RoutingOff, node.Buffers{}},
		{"forwarding", "lnetd: {forwarding: enabled}\n", RoutingAtOnce, node.Buffers{}},
		{"forwarding and enable", "lnetd: {forwarding: enabled}\nrouting: {enable: 1}\n", RoutingAtOnce, node.Buffers{}},
		{"forwarding, then not", "lnetd: {forwarding: enabled}\nrouting: {enable: 0}\n", RoutingOff, node.Buffers{}},
		{"no forwarding, then enable", "lnetd: {forwarding: disabled}\nrouting: {enable: 1}\n", RoutingOn, node.Buffers{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, tt.text)
			if c.Routing != tt.routing || c.Buffers != tt.buffers || len(c.Warnings) > 0 {
				t.Errorf("routing %d, buffers %+v, warnings %q", c.Routing, c.Buffers, c.Warnings)
			}
		})
	}
	if c := parseFile(t, "i-routed-tcp-tcp1-router.yaml"); c.Routing != RoutingOn || c.Buffers != (node.Buffers{Tiny: 512, Small: 512, Large: 64}) {
		t.Errorf("export of a router: %d, %+v", c.Routing, c.Buffers)
	}
}

func TestRoutingErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"enable", "routing:\n    enable: 4\n", []string{"f:2: routing.enable: 4 is not in 0 to 3"}},
		{"a word", "routing: yes\n", []string{`f:1: routing: "yes" was found, but keys were expected`}},
		{"buffers", "buffers:\n    tiny: -2\n", []string{"f:2: buffers.tiny: -2 is not in -1 to 1048576"}},
		{"buffers in words", "buffers: many\n", []string{`f:1: buffers: "many" was found, but keys were expected`}},
		{"forwarding", "lnetd: {forwarding: yes}\n", []string{`f:1: lnetd.forwarding: "yes" is not one of enabled, disabled`}},
	})
}
