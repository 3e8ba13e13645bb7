package node_test

import (
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given several NIDs of a server, then the one with the lowest order is the nearest. Of
// equally near ones it is the first in the list.
//
// sanity-lnet 7 (213)
func TestNearestOfSeveralNIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		const n1, n2 = "10.77.0.1@tcp", "10.77.0.2@tcp"
		f.addNI(t, n, n1)
		f.addNI(t, n, n2)
		f.addNI(t, n, "10.77.1.1@tcp1")
		addRoute(t, n, "tcp5", "10.77.0.9@tcp", node.RouteOptions{})
		for _, c := range []struct {
			nids []string
			want string
		}{
			{[]string{n1, n2}, n1},
			{[]string{n2, n1}, n2},
			{[]string{n1, "0@lo"}, "0@lo"},
			{[]string{"10.77.5.7@tcp5", "10.77.1.7@tcp1", "10.77.0.7@tcp", "10.77.0.8@tcp"}, "10.77.0.7@tcp"},
		} {
			var nearest lnet.NID
			order := 0
			for _, s := range c.nids {
				d, err := n.Distance(parseNID(t, s))
				if err != nil {
					t.Fatal(err)
				}
				if nearest.IsZero() || d.Order < order {
					nearest, order = parseNID(t, s), d.Order
				}
			}
			if nearest != parseNID(t, c.want) {
				t.Errorf("the nearest of %v is %s, want %s", c.nids, nearest, c.want)
			}
		}
	})
}
