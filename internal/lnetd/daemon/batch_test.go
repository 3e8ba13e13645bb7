package daemon

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Consecutive additions of routes are applied together, and so are consecutive deletions, and those of
// peers. Other steps are not: changes of an existing peer, and of a peer that was only discovered.
func TestStepsOfAKindComeTogether(t *testing.T) {
	r, p := &config.Route{}, &config.Peer{}
	routeCome, routeGone := config.Change[config.Route]{To: r}, config.Change[config.Route]{From: r}
	peerCome, peerGone := config.Change[config.Peer]{To: p}, config.Change[config.Peer]{From: p}
	changed, found := config.Change[config.Peer]{From: p, To: p}, config.Change[config.Peer]{To: &config.Peer{Found: true}}
	ni := config.Change[config.NI]{}
	steps := []config.Step{
		ni, ni, routeGone, routeGone, routeGone, routeCome, routeCome, ni,
		peerGone, peerGone, peerCome, peerCome, peerCome, changed, changed, found, found, peerCome,
	}
	for range stepsAtOnce + 1 {
		steps = append(steps, routeCome)
	}
	var sizes []int
	for len(steps) > 0 {
		n := len(batchOf(steps))
		sizes, steps = append(sizes, n), steps[n:]
	}
	if diff := cmp.Diff([]int{1, 1, 3, 2, 1, 2, 3, 1, 1, 1, 1, 1, stepsAtOnce, 1}, sizes); diff != "" {
		t.Error(diff)
	}
}

// If one of several peers cannot be created, those before it are deleted again. If one of several
// peers cannot be deleted, those before it are created again.
func TestPeersChangeAllOrNone(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	peers := make([]config.Peer, 5)
	for k := range peers {
		peers[k] = config.Peer{
			Primary: nid(t, fmt.Sprintf("10.77.1.%d@tcp", k+1)), Others: []lnet.NID{nid(t, fmt.Sprintf("10.77.2.%d@tcp", k+1))},
			Where: fmt.Sprintf("line %d", k),
		}
	}
	apply := func(steps []config.Step) (err error) {
		t.Helper()
		if busy := r.InTurn(t.Context(), func() { err = r.node.apply(t.Context(), steps, false) }); busy != nil {
			t.Fatal(busy)
		}
		return err
	}
	var create, remove []config.Step
	for k := range peers {
		create = append(create, config.Change[config.Peer]{To: &peers[k]})
		remove = append(remove, config.Change[config.Peer]{From: &peers[k]})
	}

	before := r.configuration(t)
	clash := peers[3]
	clash.Others = []lnet.NID{peers[0].Others[0]}
	err := apply(append(create[:3:3], config.Change[config.Peer]{To: &clash}, create[4]))
	var f *api.Fault
	if !errors.As(err, &f) || f.Text != "line 3: the peer 10.77.1.4@tcp cannot be configured" {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}

	if err := apply(create); err != nil {
		t.Fatal(err)
	}
	before = r.configuration(t)
	other := config.Peer{Primary: peers[3].Others[0]} // not a primary NID
	if err := apply(append(remove[:3:3], config.Change[config.Peer]{From: &other}, remove[4])); err == nil {
		t.Error("a peer is deleted by another NID than its primary one")
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
	if err := apply(append(remove, remove[0])); err != nil {
		t.Errorf("a peer that does not exist: %v", err)
	}
}

// If the node is closed, the error says so, and blames no peer of the batch.
func TestPeersAtAClosedNode(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	if err := r.node.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := config.Peer{Primary: nid(t, "10.77.1.1@tcp"), Where: "line 1"}
	old := config.Peer{Primary: p.Primary, Others: []lnet.NID{nid(t, "10.77.1.2@tcp")}}
	for what, step := range map[string]config.Step{
		"create": config.Change[config.Peer]{To: &p}, "change": config.Change[config.Peer]{From: &p, To: &old},
		"delete": config.Change[config.Peer]{From: &p},
	} {
		var f *api.Fault
		if err := r.node.apply(t.Context(), []config.Step{step, step}, false); !errors.Is(err, node.ErrClosed) || errors.As(err, &f) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
