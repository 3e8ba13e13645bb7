package cclient

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote"
)

// home is the host of lnetd, away another host. The second two NIDs are large.
var (
	home, away           = mustNID("10.0.0.1@tcp"), mustNID("10.0.0.2@tcp")
	largeHome, largeAway = mustNID("2001:db8::10@tcp2"), mustNID("2001:db8::20@tcp2")
)

// patience is the time limit of a client.
const patience = time.Minute

func mustNID(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}

var compiled struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if compiled.path != "" {
		_ = os.RemoveAll(filepath.Dir(compiled.path)) // created by MkdirTemp
	}
	os.Exit(status)
}

// client returns the path of the compiled client.c.
func client(t testing.TB) string {
	t.Helper()
	testenv.NeedCommand(t, "cc", "gcc")
	compiled.once.Do(func() {
		dir, err := os.MkdirTemp("", "cclient")
		if err != nil {
			compiled.err = err
			return
		}
		compiled.path = filepath.Join(dir, "client")
		out, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", compiled.path, "client.c").CombinedOutput()
		if err != nil {
			compiled.err = fmt.Errorf("cc: %w\n%s", err, out)
		}
	})
	if compiled.err != nil {
		t.Fatal(compiled.err)
	}
	return compiled.path
}

// run runs the client and returns its standard output and standard error.
func run(t testing.TB, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var o, e bytes.Buffer
	c := exec.CommandContext(ctx, client(t), arguments...)
	c.Stdout, c.Stderr = &o, &e
	err = c.Run()
	return o.String(), e.String(), err
}

// A program in C exchanges messages, and bulk in both directions, with a peer in Go. The peer is on
// another host, in lnetd, or also a client. lnetd runs over a Core in memory, or over a node, with
// NIDs of both lengths. The program also makes mistakes and cancels operations, and leaves nothing
// behind.
//
// transport 6.6 (4), 9.1, 9.2, 9.3, 9.4, 9.5, 9.6 (1), 9.9 (9)
// r.m0.net.xprt.lnet.ioctl
func TestConversation(t *testing.T) {
	network := mem.New(mem.Config{})
	far := network.Host(away)
	for _, c := range []struct {
		name     string
		core     transport.Core
		nid      lnet.NID
		peer     transport.Core // nil: core
		isClient bool
	}{
		{name: "another host", core: network.Host(home), nid: away, peer: far},
		{name: "same core", core: mem.New(mem.Config{}).Host(home), nid: home},
		{name: "two clients", core: mem.New(mem.Config{}).Host(home), nid: home, isClient: true},
		{name: "node", core: inproc.New(tmpeer.StartNode(t, home)), nid: home},
		{name: "two clients of a node", core: inproc.New(tmpeer.StartNode(t, home)), nid: home, isClient: true},
		{name: "large NIDs", core: network.Host(mustNID("10.0.0.3@tcp2"), largeHome), nid: largeAway, peer: network.Host(largeAway)},
		{name: "two clients at a large NID", core: mem.New(mem.Config{}).Host(largeHome), nid: largeHome, isClient: true},
		{name: "node with a large NID", core: inproc.New(tmpeer.StartNode(t, largeHome)), nid: largeHome},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, path := tmpeer.Serve(t, c.core)
			core := c.core
			switch {
			case c.peer != nil:
				core = c.peer
			case c.isClient:
				core = remote.New(remote.Config{Path: path})
			}
			p := tmpeer.New(t, core, c.nid)
			out, complaints, err := run(t, path, p.Address)
			if err != nil || complaints != "" || !strings.HasPrefix(out, "ok: ") {
				t.Errorf("%v, %q, %q", err, out, complaints)
			}
			p.Stop()
			tmpeer.Eventually(t, "nobody is left", func() bool { return len(server.Clients()) == 0 })
		})
	}
}

// The session on the protocol's page is equal to the session of the client.
//
// transport 9.1, 9.2, 9.4
func TestWorkedSession(t *testing.T) {
	core := mem.New(mem.Config{}).Host(home)
	_, path := tmpeer.Serve(t, core)
	p := tmpeer.New(t, core, home)
	out, complaints, err := run(t, "-x", path, p.Address)
	if err != nil || complaints != "" {
		t.Fatalf("%v, %q", err, complaints)
	}
	p.Stop()
	tmpeer.CompareSession(t, tmpeer.PageSession(t, "../../docs/transport-protocol.md"), out)
}

// If a client cannot continue, it prints the reason.
//
// transport 9.8, 9.10
func TestReasons(t *testing.T) {
	core := mem.New(mem.Config{}).Host(home)
	t.Run("no lnetd", func(t *testing.T) {
		_, complaints, err := run(t, filepath.Join(testenv.SocketDir(t), "s"), "10.0.0.1@tcp:12345:34:7")
		if err == nil || !strings.Contains(complaints, "No such file or directory") {
			t.Errorf("%v, %q", err, complaints)
		}
	})
	t.Run("lnetd is stopping", func(t *testing.T) {
		server, path := tmpeer.Serve(t, core)
		client(t) // compile it first, because that may end the test
		type result struct {
			complaints string
			err        error
		}
		over := make(chan result, 1)
		go func() {
			_, complaints, err := run(t, path, "10.0.0.1@tcp:12345:34:7")
			over <- result{complaints, err}
		}()
		// It then waits for an echo that never comes.
		tmpeer.Eventually(t, "it has a TM", func() bool { c := server.Clients(); return len(c) == 1 && len(c[0].TMs) == 1 })
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if r := <-over; r.err == nil || !strings.Contains(r.complaints, "lnetd has cut us off: lnetd is stopping") {
			t.Errorf("%v, %q", r.err, r.complaints)
		}
	})
}
