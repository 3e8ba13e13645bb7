package node_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// captureOf captures the messages of a node to portals other than the reserved one, and returns a function that
// returns them as text: what happened, type, source, destination, neighbour and payload.
func captureOf(t *testing.T, n *node.Node) (got func() []string, stop func()) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	names := map[node.CaptureEvent]string{
		node.CaptureSent: "sent", node.CaptureReceived: "received", node.CaptureDropped: "dropped", node.CaptureFailed: "failed",
	}
	stop, err := n.Admin().Capture(func(m *node.Captured) {
		h := &m.Header
		payload := make([]byte, m.Payload.Length)
		m.Payload.CopyTo(payload)
		if bytes.HasPrefix(payload, []byte("gnip")) || bytes.HasPrefix(payload, []byte("ping")) ||
			(h.Type == lnet.MsgPut || h.Type == lnet.MsgGet) && h.Portal == lnet.ReservedPortal {
			return // of discovery
		}
		line := fmt.Sprintf("%s %s %s > %s by %s %q", names[m.Event], h.Type, h.Src, h.Dest, m.Neighbour, payload)
		if m.Forwarded {
			line += " forwarded"
		}
		if m.Event == node.CaptureDropped {
			line += " " + m.Reason.String()
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { list = nil }()
		return list
	}, stop
}

func wantCaptured(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("captured (-want +got):\n%s", diff)
	}
}

// Given captures on a client, a router and a server, when a PUT with an ACK and a GET go from the client to the
// server, then each node captures what it sends, receives and forwards, with the payload and the neighbour. A capture
// that was stopped gets nothing more.
func TestCaptureThroughRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t, 1, node.DefaultParameters())
		if err := r.put(t, nil); err != nil { // the nodes discover each other
			t.Fatal(err)
		}
		synctest.Wait()
		client, stop := captureOf(t, r.client)
		router, _ := captureOf(t, r.routers[0])
		server, _ := captureOf(t, r.server)
		if err := r.put(t, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, 3)
		if _, err := r.client.GetWait(context.Background(), reply, r.ids, node.GetOptions{Portal: 4}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		const out, back = "10.77.0.10@tcp > 10.77.1.20@tcp1 by ", "10.77.1.20@tcp1 > 10.77.0.10@tcp by "
		near, far := routerNIDs[0][0], routerNIDs[0][1]
		wantCaptured(t, client(),
			"sent PUT "+out+near+` "hello"`, "received ACK "+back+near+` ""`,
			"sent GET "+out+near+` ""`, "received REPLY "+back+near+` "hel"`)
		wantCaptured(t, server(),
			"received PUT "+out+far+` "hello"`, "sent ACK "+back+far+` ""`,
			"received GET "+out+far+` ""`, "sent REPLY "+back+far+` "hel"`)
		wantCaptured(t, router(),
			"received PUT "+out+`10.77.0.10@tcp "hello" forwarded`, "sent PUT "+out+`10.77.1.20@tcp1 "hello" forwarded`,
			"received ACK "+back+`10.77.1.20@tcp1 "" forwarded`, "sent ACK "+back+`10.77.0.10@tcp "" forwarded`,
			"received GET "+out+`10.77.0.10@tcp "" forwarded`, "sent GET "+out+`10.77.1.20@tcp1 "" forwarded`,
			"received REPLY "+back+`10.77.1.20@tcp1 "hel" forwarded`, "sent REPLY "+back+`10.77.0.10@tcp "hel" forwarded`)
		stop()
		if err := r.put(t, []byte("again")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantCaptured(t, client())
	})
}

// A message that no entry accepts is captured as dropped where it arrives. A request without a path is captured as
// failed. A message on 0@lo is sent and received.
func TestCaptureDropsAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		at, _ := captureOf(t, p.b)
		from, _ := captureOf(t, p.a)
		if _, err := p.a.PutWait(t.Context(), []byte("x"), p.idb, node.PutOptions{Portal: 9}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.a.PutWait(t.Context(), []byte("y"), process(t, "10.0.0.1@tcp7"), node.PutOptions{Portal: 9}); err == nil {
			t.Error("a PUT to an unreachable net succeeded")
		}
		if _, err := p.a.PutWait(t.Context(), []byte("z"), process(t, "0@lo"), node.PutOptions{Portal: 9}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantCaptured(t, at(), `dropped PUT 10.77.0.11@tcp > 10.77.0.12@tcp by 10.77.0.11@tcp "" no_match`)
		wantCaptured(t, from(),
			`sent PUT 10.77.0.11@tcp > 10.77.0.12@tcp by 10.77.0.12@tcp "x"`,
			`failed PUT  > 10.0.0.1@tcp7 by  ""`,
			`sent PUT 0@lo > 0@lo by 0@lo "z"`, `dropped PUT 0@lo > 0@lo by  "" no_match`)
	})
}

func TestCaptureOfNoNode(t *testing.T) {
	if _, err := new(node.Node).Admin().Capture(func(*node.Captured) {}); err == nil {
		t.Error("a node that was not made is captured")
	}
}
