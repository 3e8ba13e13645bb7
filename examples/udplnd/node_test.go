package udplnd_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Two nodes exchange messages over UDP: PUTs with ACKs, which discovery precedes, and GETs.
func TestNodes(t *testing.T) {
	ctx := t.Context()
	server, client := startNode(t, 101), startNode(t, 102)
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
	offered := bytes.Repeat([]byte("0123456789abcdef"), lnet.MTU/16)
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

func startNode(t *testing.T, k int) *node.Node {
	t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	pid := os.Getpid()
	ip := netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(k)})
	driver := &udplnd.Driver{Port: 9990, Listen: udplnd.UDP}
	if _, err := n.AddNI(t.Context(), driver, lnd.Config{NID: lnet.NIDFromIP(lnet.MakeNet(udplnd.Type, 0), ip)}); err != nil {
		t.Fatal(err)
	}
	return n
}
