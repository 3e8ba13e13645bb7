package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// gettingOn reports which loops are idle, and which have made progress since before.
func gettingOn(n *node.Node, before []node.Progress) (now []node.Progress, waits, moved map[string]bool) {
	now, waits, moved = n.Admin().Progress(), map[string]bool{}, map[string]bool{}
	for k, p := range now {
		waits[p.Loop] = p.Waits
		moved[p.Loop] = k < len(before) && p.Step != before[k].Step
	}
	return now, waits, moved
}

// Given a node without work, then its monitor makes progress each second, and both loops
// are idle in between.
func TestIdleLoopsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		synctest.Wait()
		before, waits, _ := gettingOn(n, nil)
		if diff := cmp.Diff(map[string]bool{"monitor": true, "discoverer": true}, waits); diff != "" {
			t.Error(diff)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		_, waits, moved := gettingOn(n, before)
		if !waits["monitor"] || !moved["monitor"] || !waits["discoverer"] {
			t.Errorf("waits %v, moved %v", waits, moved)
		}
	})
}

// Given a loop that is stuck in a call, then it is neither idle nor makes progress, while
// the other one does. When the call returns, it is idle again.
func TestStuckLoopsShow(t *testing.T) {
	for loop, wedge := range map[string]func(t *testing.T, p *pair, until <-chan struct{}){
		"discoverer": func(_ *testing.T, p *pair, until <-chan struct{}) {
			go func() {
				_ = p.a.Admin().ChangePolicies(context.Background(), func(*selection.Policies) error { <-until; return nil })
			}()
		},
		"monitor": func(t *testing.T, p *pair, until <-chan struct{}) { // sends messages that a fault rule delays
			p.fabric.show(func(lnet.Header, []byte) { <-until })
			addFault(t, p.a, faults.Rule{Kind: faults.Delay, Latency: time.Second, Rate: 1})
			put(t, p.a, bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 1}), p.idb, node.PutOptions{Portal: 1})
		},
	} {
		t.Run(loop, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				until := make(chan struct{})
				wedge(t, p, until)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				before, _, _ := gettingOn(p.a, nil)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if _, waits, moved := gettingOn(p.a, before); waits[loop] || moved[loop] {
					t.Errorf("waits %v, moved %v", waits, moved)
				}
				close(until)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if _, waits, _ := gettingOn(p.a, before); !waits["monitor"] || !waits["discoverer"] {
					t.Errorf("in the end %v", waits)
				}
			})
		})
	}
}
