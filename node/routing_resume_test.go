package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/node"
)

// Given a router that is stopping, when it is resumed, then it starts again, forwards all
// the time, and does not stop.
func TestRoutingIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		n := b.node
		n.Admin().DisableRouting()
		if err := n.Admin().ResumeRouting(); err != nil || n.Admin().Routing().State != node.RoutingStarting {
			t.Fatalf("%v, state %d", err, n.Admin().Routing().State)
		}
		time.Sleep(30 * time.Second)
		if !b.send(t) {
			t.Error("starting again: not forwarded")
		}
		time.Sleep(82 * time.Second)
		if s := n.Admin().Routing().State; s != node.RoutingEnabled {
			t.Errorf("state %d", s)
		}
		if err := n.Admin().ResumeRouting(); err != nil || n.Admin().Routing().State != node.RoutingEnabled {
			t.Errorf("resumed though it forwards: %v", err)
		}
	})
}
