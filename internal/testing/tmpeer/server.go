package tmpeer

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// Patience is the time limit of a client, and of Eventually.
const Patience = time.Minute

// Serve starts an lnetd over a Core. It is closed at the end of the test, and must have no clients
// then.
func Serve(t testing.TB, core transport.Core) (server *clients.Server, path string) {
	t.Helper()
	server, err := clients.New(clients.Config{Core: core, Incarnation: 77})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(testenv.SocketDir(t), "s")
	l, err := clients.Listen(path, -1)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return server, path
}

// Eventually waits until f is true.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// StartNode starts a node with a NID, on a network in memory.
func StartNode(t testing.TB, nid lnet.NID) *node.Node {
	t.Helper()
	fabric := simlnd.New(simlnd.Config{})
	t.Cleanup(fabric.Close)
	address, _, _ := strings.Cut(nid.String(), "@")
	d, err := simlnd.NewDriver(fabric.Host(address, address), socklnd.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{}, d, nid.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}
