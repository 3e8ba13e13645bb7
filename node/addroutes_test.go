package node_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given many routes, some of them invalid, when they are added at once, then the valid
// ones are added and each invalid one has its own error. They can be deleted at once too.
func TestManyRoutesAtOnce(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	route := func(net uint16, gateway string) node.NewRoute {
		return node.NewRoute{Net: lnet.MakeNet(lnet.TypeO2IB, net), Gateway: parseNID(t, gateway)}
	}
	var list []node.NewRoute
	for k := range 300 {
		list = append(list, route(uint16(k%3), fmt.Sprintf("10.0.%d.%d@tcp", 1+k/200, 1+k%200)))
	}
	bad := map[int]error{len(list): node.ErrExists, len(list) + 1: node.ErrUnreachable, len(list) + 2: node.ErrInvalid}
	list = append(list, list[7], route(5, "10.0.0.1@tcp9"), route(5, "10.0.0.1@tcp"))
	errs, err := n.Admin().AddRoutes(t.Context(), list)
	if err != nil || len(errs) != len(list) {
		t.Fatalf("%v, %d errors for %d routes", err, len(errs), len(list))
	}
	for k, err := range errs {
		if !errors.Is(err, bad[k]) {
			t.Errorf("route %d: %v, want %v", k, err, bad[k])
		}
	}
	if got := len(n.Admin().Routes()); got != 300 {
		t.Errorf("%d routes", got)
	}
	if err := n.Admin().DeleteRoutes(t.Context(), list[:299]); err != nil {
		t.Error(err)
	}
	if left := n.Admin().Routes(); len(left) != 1 || left[0].Gateway != list[299].Gateway {
		t.Errorf("left: %+v", left)
	}
	// Peers are no longer gateways once their routes are deleted.
	if err := n.Admin().DeletePeer(t.Context(), list[0].Gateway); err != nil {
		t.Error(err)
	}
	if err := n.Admin().DeletePeer(t.Context(), list[299].Gateway); err == nil {
		t.Error("a gateway is deleted")
	}
}
