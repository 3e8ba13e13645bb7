package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// serve serves a daemon until the test ends.
func serve(t *testing.T, d server.Backend) (c *client.Client, path string) {
	t.Helper()
	path = filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := server.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- (&server.Server{Backend: d}).Serve(ctx, l) }()
	c = client.New(path)
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c, path
}

// wantFault checks that err is a fault with these values.
func wantFault(t *testing.T, err error, code api.Code, errno syscall.Errno, text string) {
	t.Helper()
	var f *api.Fault
	if !errors.As(err, &f) {
		t.Fatalf("error %v, want %s", err, code)
	}
	if f.Code != code || f.Errno != -int(errno) || f.Text != text {
		t.Errorf("%s, errno %d, text %q; want %s, errno %d, text %q", f.Code, f.Errno, f.Text, code, -int(errno), text)
	}
}

func wantDone(t *testing.T, d *controltest.Daemon, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.Done); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func nid(s string) lnet.NID {
	n, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return n
}

func nids(list ...string) []lnet.NID {
	var out []lnet.NID
	for _, s := range list {
		out = append(out, nid(s))
	}
	return out
}

func pattern(s string) lnet.Pattern {
	d, err := lnet.ParsePattern(s)
	if err != nil {
		panic(err)
	}
	return d
}

var (
	tcp  = lnet.MakeNet(lnet.TypeTCP, 0)
	tcp9 = lnet.MakeNet(lnet.TypeTCP, 9)

	sameNID = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })
)

// aPeer returns a peer with the given NIDs. The first one is its primary NID.
func aPeer(has ...string) api.Peer {
	p := api.Peer{Primary: nid(has[0]), MultiRail: true, State: uint32(discovery.MultiRail | discovery.Discovered)}
	for _, s := range has {
		p.NIs = append(p.NIs, api.PeerNI{NID: nid(s), State: "up"})
	}
	return p
}
