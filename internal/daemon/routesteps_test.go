package daemon

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// Routes that come one after the other come together, and so do those that go; nothing else
// does.
func TestRoutesComeTogether(t *testing.T) {
	r := &config.Route{}
	come, gone, ni := config.Change[config.Route]{To: r}, config.Change[config.Route]{From: r}, config.Change[config.NI]{}
	steps := []config.Step{ni, ni, gone, gone, gone, come, come, ni}
	for range routesAtOnce + 1 {
		steps = append(steps, come)
	}
	var sizes []int
	for len(steps) > 0 {
		n := len(batchOf(steps))
		sizes, steps = append(sizes, n), steps[n:]
	}
	if diff := cmp.Diff([]int{1, 1, 3, 2, 1, routesAtOnce, 1}, sizes); diff != "" {
		t.Error(diff)
	}
}

// Of routes that come together none stays if one cannot be.
func TestRoutesComeAllOrNone(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	before := r.configuration(t)
	var steps []config.Step
	for k := range 5 {
		gateway := nid(t, fmt.Sprintf("10.77.1.%d@tcp", k+1))
		if k == 3 {
			gateway = nid(t, "10.77.0.11@o2ib5") // on the net that the route leads to
		}
		steps = append(steps, config.Change[config.Route]{To: &config.Route{Net: lnet.MakeNet(lnet.TypeO2IB, 5), Gateway: gateway, Where: "here"}})
	}
	var err error
	if busy := r.InTurn(t.Context(), func() { err = r.node.apply(t.Context(), steps, false) }); busy != nil {
		t.Fatal(busy)
	}
	var f *api.Fault
	if !errors.As(err, &f) || f.Text != "here: the route to o2ib5 by 10.77.0.11@o2ib5 cannot be added" {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
}
