package mpilnd

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Two nodes exchange messages over MPI: PUTs with ACKs, which discovery precedes, and GETs, whose answers are received
// directly into their memory.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob(t, 2, fake.Options{Eager: 4096, Unexpected: 64, Delay: 10 * time.Microsecond, Shuffle: true})
		var nodes [2]*node.Node
		for k := range nodes {
			n, err := node.New(node.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.AddNI(t.Context(), j.drivers[k], lnd.Config{NID: nid(k)}); err != nil {
				t.Fatal(err)
			}
			nodes[k] = n
		}
		defer func() {
			for _, n := range nodes {
				if err := n.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
			j.close()
		}()
		exchange(t, nodes[0], nodes[1])
		if n := j.drivers[1].count.gets.Load(); n == 0 {
			t.Error("no GET was optimized")
		}
	})
}

// exchange sends messages from the client to the server.
func exchange(t *testing.T, server, client *node.Node) {
	t.Helper()
	ctx := t.Context()
	const portal = 30
	to := lnet.ProcessID{NID: server.NID()}
	inbox, err := server.OpenInbox(node.InboxConfig{Portal: portal})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		text := fmt.Sprint("message ", k)
		if n, err := client.PutWait(ctx, []byte(text), to, node.PutOptions{Portal: portal, Ack: true}); err != nil || n != len(text) {
			t.Fatalf("PUT: %d bytes, %v", n, err)
		}
		for m, err := range inbox.Messages(ctx) {
			if err != nil || string(m.Data) != text {
				t.Fatalf("%q, %v; want %q", m.Data, err, text)
			}
			break
		}
	}
	offered := pattern(lnet.MTU)
	if _, err := server.Attach(portals.Entry{Portal: portal + 1}, portals.MD{
		Bytes: offered, Options: portals.OpGet | portals.ManageRemote | portals.Truncate, Threshold: portals.Unlimited,
	}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 10_000, lnet.MTU} {
		sink := make([]byte, size)
		if n, err := client.GetWait(ctx, sink, to, node.GetOptions{Portal: portal + 1}); err != nil || !bytes.Equal(sink[:n], offered[:size]) {
			t.Errorf("GET of %d bytes: %d, %v", size, n, err)
		}
	}
}
