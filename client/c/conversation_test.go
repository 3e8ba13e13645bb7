package c

import (
	"bufio"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote"
)

const conversation = "testdata/conversation.c"

// home is the host of lnetd, away another host. The second two NIDs are large.
var (
	home, away           = mustNID("10.0.0.1@tcp"), mustNID("10.0.0.2@tcp")
	largeHome, largeAway = mustNID("2001:db8::10@tcp2"), mustNID("2001:db8::20@tcp2")
)

func mustNID(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}

// A program that uses liblnetd exchanges messages, and bulk in both directions, with a peer in Go. The peer
// is on another host, in lnetd, or also a client. The program also makes mistakes and cancels operations,
// and leaves nothing behind. Its memory is allocated by the library, replaced in place, and copied.
//
// transport 6.6 (4), 9.1, 9.2, 9.3, 9.4, 9.5, 9.6 (1)
func TestConversation(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
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
			{name: "two clients", core: mem.New(mem.Config{}).Host(home), nid: home, isClient: true},
			{name: "node", core: inproc.New(tmpeer.StartNode(t, home)), nid: home},
			{name: "two clients of a node", core: inproc.New(tmpeer.StartNode(t, home)), nid: home, isClient: true},
			{name: "large NIDs", core: network.Host(mustNID("10.0.0.3@tcp2"), largeHome), nid: largeAway, peer: network.Host(largeAway)},
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
				v.run(t, conversation, path, p.Address)
				p.Stop()
				tmpeer.Eventually(t, "nobody is left", func() bool { return len(server.Clients()) == 0 })
			})
		}
	})
}

// Two programs that use liblnetd talk with each other, over one lnetd and over two.
//
// transport 9.1, 9.4
func TestTwoPrograms(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		network := mem.New(mem.Config{})
		for _, c := range []struct {
			name         string
			core, second transport.Core // second is nil if there is one lnetd
		}{
			{name: "one lnetd", core: inproc.New(tmpeer.StartNode(t, home))},
			{name: "two", core: network.Host(home), second: network.Host(away)},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, path := tmpeer.Serve(t, c.core)
				other := path
				if c.second != nil {
					_, other = tmpeer.Serve(t, c.second)
				}
				const address = "10.0.0.1@tcp:12345:34:7"
				s := v.begin(t, conversation, "-s", path, address, "2")
				out, err := s.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				if !lines.Scan() || lines.Text() != "ready" {
					t.Errorf("the server says %q", lines.Text())
				}
				for range 2 {
					v.run(t, conversation, other, address)
				}
				if !lines.Scan() || lines.Text() != "ok" {
					t.Errorf("the server says %q", lines.Text())
				}
				if err := s.Wait(); err != nil || s.complaints.Len() > 0 {
					t.Errorf("the server: %v\n%s", err, &s.complaints)
				}
			})
		}
	})
}
