// Package simulated tests a program that uses LNet without a real network. It has two
// nodes in memory. Its clock advances only while all goroutines wait.
package simulated

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

const portal = 30

// While the server is unreachable, PutWait returns an error. When the server is reachable
// again, it receives messages again.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		fabric := simlnd.New(simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: time.Millisecond}})
		t.Cleanup(fabric.Close)
		client, server := start(t, fabric, "10.0.0.1"), start(t, fabric, "10.0.0.2")

		inbox, err := server.OpenInbox(node.InboxConfig{Portal: portal})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for _, err := range inbox.Messages(ctx) { // discard them
				if err != nil {
					return // ctx has ended
				}
			}
		}()
		put := func() (time.Duration, error) {
			began := time.Now()
			to := lnet.ProcessID{NID: server.NID()}
			_, err := client.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: portal, Ack: true})
			return time.Since(began), err
		}

		if _, err := put(); err != nil {
			t.Fatal(err)
		}
		// Fabric.Host creates a host, or returns the existing one of that name.
		a, b := fabric.Host("10.0.0.1"), fabric.Host("10.0.0.2")
		fabric.Partition(a, b, simlnd.Both)
		if took, err := put(); err == nil || took < 10*time.Second {
			t.Errorf("error %v after %v, want one when some time has passed", err, took)
		}
		fabric.Heal(a, b, simlnd.Both)
		time.Sleep(time.Minute) // of simulated time: the client waits before it reconnects
		if _, err := put(); err != nil {
			t.Error(err)
		}
	})
}

// start starts a node on a host of the fabric. The node is closed when the test ends.
func start(t *testing.T, fabric *simlnd.Fabric, address string) *node.Node {
	driver, err := simlnd.NewDriver(fabric.Host(address, address), socklnd.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{}, driver, address+"@tcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now.
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}
