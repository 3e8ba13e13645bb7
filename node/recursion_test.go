package node_test

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// flat is the maximum number of frames on the stack of a handler.
const flat = 64

// frames counts the frames on the caller's stack, up to a limit.
func frames() int {
	var pcs [2 * flat]uintptr
	return runtime.Callers(1, pcs[:])
}

// Given a handler that sends again whenever a send fails, when no driver is involved in
// the failure, then the stack does not grow.
//
// lnet-core 3.3 (7)
func TestFailingSendsDoNotRecurse(t *testing.T) {
	depth := 200_000
	if testenv.Race {
		depth = 50_000
	}
	for name, prepare := range map[string]func(t *testing.T, p *pair) (to lnet.ProcessID){
		"no path": func(t *testing.T, _ *pair) lnet.ProcessID { return process(t, "10.0.0.9@o2ib") },
		"fault rule": func(t *testing.T, p *pair) lnet.ProcessID {
			addFault(t, p.a, faults.Rule{Kind: faults.Drop, Rate: 1, Statuses: faults.StatusOf(lnd.StatusLocalError)})
			return p.idb
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			to := prepare(t, p)
			failures, deepest := 0, 0
			var again portals.HandlerFunc
			again = func(e *portals.Event) {
				if e.Err == nil {
					t.Fatal("it has left")
				}
				deepest = max(deepest, frames())
				if failures++; failures < depth {
					put(t, p.a, bind(t, p.a, portals.MD{Threshold: 1, Unlink: true, Handler: again}), to, node.PutOptions{})
				}
			}
			put(t, p.a, bind(t, p.a, portals.MD{Threshold: 1, Unlink: true, Handler: again}), to, node.PutOptions{})
			if failures != depth || deepest >= flat {
				t.Errorf("%d failures, %d frames on the stack; want %d, less than %d", failures, deepest, depth, flat)
			}
		})
	}
}

// Given PUTs on a lazy portal whose connections are lost, so that the driver fails them
// within Receive, when each handler attaches an MD for the next one, then the stack does
// not grow and the order is that of arrival.
//
// lnet-core 4.6 (2)
func TestAttachInHandlersDoesNotRecurse(t *testing.T) {
	const waiting = 10_000
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	q.dead = true
	if err := n.SetLazy(5); err != nil {
		t.Fatal(err)
	}
	for k := range uint64(waiting) {
		h := lnet.Header{Type: lnet.MsgPut, Portal: 5, HdrData: k, Handle: lnet.NoHandle, PayloadLength: 1}
		if err := q.arrive(parseNID(t, "10.0.0.2@tcp"), h, false); err != nil {
			t.Fatal(err)
		}
	}
	next, deepest := uint64(0), 0
	var post portals.HandlerFunc
	post = func(e *portals.Event) {
		if e.Err == nil || e.HdrData != next {
			t.Fatalf("event %+v, want number %d, failed", e, next)
		}
		next++
		deepest = max(deepest, frames())
		attach(t, n, portals.Entry{Portal: 5}, portals.MD{
			Bytes: make([]byte, 1), Threshold: 1, Unlink: true, Options: portals.OpPut, Handler: post})
	}
	attach(t, n, portals.Entry{Portal: 5}, portals.MD{
		Bytes: make([]byte, 1), Threshold: 1, Unlink: true, Options: portals.OpPut, Handler: post})
	if next != waiting || deepest >= flat {
		t.Errorf("%d events, %d frames on the stack; want %d, less than %d", next, deepest, waiting, flat)
	}
}

// Given PUTs that wait on a lazy portal, when an MD accepts several of them and its
// handler attaches another one for the rest, then they are placed in the order of
// arrival. The rest does not come in the middle of the first ones.
//
// lnet-core 4.6 (2)
func TestWaitingPutsKeepTheirOrder(t *testing.T) {
	const waiting = 6
	n := newNode(t, node.Config{})
	if err := n.SetLazy(2); err != nil {
		t.Fatal(err)
	}
	h := bind(t, n, portals.MD{Threshold: portals.Unlimited})
	var want []uint64
	for k := range uint64(waiting) {
		put(t, n, h, loID, node.PutOptions{Portal: 2, HdrData: k})
		want = append(want, k)
	}
	var got []uint64
	note := func(e *portals.Event) { got = append(got, e.HdrData) }
	attach(t, n, portals.Entry{Portal: 2}, portals.MD{
		Threshold: waiting / 2, Unlink: true, Options: portals.OpPut,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if note(e); len(got) == 1 {
				attach(t, n, portals.Entry{Portal: 2}, portals.MD{
					Threshold: waiting / 2, Unlink: true, Options: portals.OpPut, Handler: portals.HandlerFunc(note)})
			}
		})})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("taken (-want +got):\n%s", d)
	}
}
