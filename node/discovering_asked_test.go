package node_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Discover pings a peer that is known already. ForceDiscover also pushes.
//
// discovery 5.2 (1)
func TestDiscoverAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := f.discovering(t, a0)
		f.discovering(t, b0)
		discover(t, a, parseNID(t, b0))
		synctest.Wait()
		for _, c := range []struct {
			name     string
			discover func(context.Context, lnet.NID) (node.PeerInfo, error)
			want     string
		}{
			{"Discover", a.Discover, "GET REPLY"},
			{"ForceDiscover", a.ForceDiscover, "GET REPLY PUT ACK"},
		} {
			all := f.record()
			if _, err := c.discover(t.Context(), parseNID(t, b0)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := ""
			for k, w := range *all {
				if k > 0 {
					got += " "
				}
				got += w.h.Type.String()
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	})
}

// If a ping cannot be sent, the round ends at once with the error.
//
// discovery 6.2 refused, 6.8 callers
func TestDiscoveringWhoShallFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := f.discovering(t, a0)
		f.discovering(t, b0)
		if err := a.Admin().FailNID(parseNID(t, b0), 1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err := a.Discover(t.Context(), parseNID(t, b0))
		if d := time.Since(begin); !errors.Is(err, node.ErrFailNID) || d != 0 {
			t.Errorf("after %v: %v", d, err)
		}
		if p := a.Peers(); len(p) != 1 || p[0].State&(discovery.Rediscover|discovery.PingSent) != discovery.Rediscover {
			t.Errorf("peers %+v", p)
		}
	})
}

// Messages to 0@lo start no discovery, not even of this node.
//
// discovery 5.1 (1)
func TestLoopbackIsNotDiscovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFabric().discovering(t, a0)
		inbox(t, a)
		if err := say(t, a, "0@lo"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := a.Admin().Counters(); c.Sent != 2 || c.Received != 2 { // PUT and ACK
			t.Errorf("counters %+v", c)
		}
	})
}

// A message to a process of an application is sent at once, because the process does not answer discovery. A message to
// a node waits until its peer is discovered, also if the peer has called from an unprivileged port, which only nodes on
// TCP do.
//
// decisions 242
func TestMessagesToApplications(t *testing.T) {
	for _, test := range []struct {
		net   string
		pid   lnet.PID
		first lnet.MsgType
	}{
		{"o2ib", lnet.PIDUserFlag | 5, lnet.MsgPut},
		{"o2ib", lnet.PIDLustre, lnet.MsgGet},
		{"o2ib", 5, lnet.MsgGet},
		{"tcp", lnet.PIDUserFlag | 5, lnet.MsgGet},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFabric()
			a := f.discovering(t, "10.77.0.11@"+test.net)
			inbox(t, f.discovering(t, "10.77.0.12@"+test.net))
			synctest.Wait()
			var sent []lnet.MsgType
			f.show(func(h lnet.Header, _ []byte) { sent = append(sent, h.Type) })
			to := lnet.ProcessID{NID: parseNID(t, "10.77.0.12@"+test.net), PID: test.pid}
			_, err := a.PutWait(t.Context(), []byte("hello"), to, node.PutOptions{Portal: 4, Ack: true})
			f.show(nil)
			synctest.Wait() // another goroutine may be sending
			if err != nil || sent[0] != test.first {
				t.Errorf("%+v: %v, sent %v", test, err, sent)
			}
		})
	}
}

// A gateway is a node. If nothing checks it before, it is discovered before a message to an application behind it
// (decisions 242).
//
// discovery 5.1 (7)
func TestGatewaysToApplications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.RouterCheckInterval = 0
		g := newGuided(t, p, "10.77.2.1@o2ib")
		addRoute(t, g.node, "o2ib", gatewayNear, node.RouteOptions{})
		var sent []string
		g.fabric.show(func(h lnet.Header, _ []byte) {
			if h.Src == g.port.nid {
				sent = append(sent, h.Type.String()+" "+h.Dest.String())
			}
		})
		const rank = "10.77.2.20@o2ib"
		_, err := g.node.PutWait(t.Context(), []byte("hello"), lnet.ProcessID{NID: parseNID(t, rank), PID: lnet.PIDUserFlag | 5}, node.PutOptions{Portal: 4})
		synctest.Wait()
		g.fabric.show(nil)
		ping, put := slices.Index(sent, "GET "+gatewayNear), slices.Index(sent, "PUT "+rank)
		if err != nil || ping != 0 || put < 0 {
			t.Errorf("%v, sent %q", err, sent)
		}
	})
}

// Pings of any process are answered, whatever its PID.
//
// discovery 4.5
func TestPingsOfAnyProcess(t *testing.T) {
	p := newPair(t)
	var answers []lnet.Header
	p.fabric.sent = func(h lnet.Header, _ []byte) { answers = append(answers, h) }
	for _, pid := range []lnet.PID{lnet.PIDLustre, 77, lnet.PIDUserFlag | 5} {
		answers = nil
		h := lnet.Header{
			Src: p.ida.NID, SrcPID: pid, Dest: p.idb.NID, DestPID: lnet.PIDLustre, Type: lnet.MsgGet,
			MatchBits: lnet.PingMatchBits, Length: lnet.PingBufferMin, Handle: lnet.Handle{Interface: 1, Object: 1},
		}
		if err := p.pb.inject(p.ida.NID, h, nil); err != nil {
			t.Fatal(err)
		}
		if len(answers) != 1 || answers[0].Type != lnet.MsgReply || answers[0].DestPID != pid {
			t.Errorf("PID %d: answers %+v", pid, answers)
		}
	}
}

// Given a peer whose primary NID is locked and which is not discovered, then PrimaryNID
// returns at once. For another peer it waits.
//
// discovery 7.5, 7.6 lock
func TestPrimaryNIDOfALockedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := f.discovering(t, a0)
		b := newNode(t, node.Config{})
		f.addManualPort(t, b, b0) // never answers
		f.addManualPort(t, b, "10.77.0.13@tcp")
		ask := func(nid string) (lnet.NID, time.Duration) {
			begin := time.Now()
			primary, _ := a.PrimaryNID(t.Context(), parseNID(t, nid))
			return primary, time.Since(begin)
		}
		if _, err := a.Admin().AddPeer(t.Context(), []lnet.NID{parseNID(t, b0)}, node.AddPeerOptions{Lock: true}); err != nil {
			t.Fatal(err)
		}
		if nid, d := ask(b0); nid != parseNID(t, b0) || d != 0 {
			t.Errorf("locked: %s after %v", nid, d)
		}
		if _, d := ask("10.77.0.13@tcp"); d < time.Minute {
			t.Errorf("not locked: after %v", d)
		}
	})
}

// A node that is closing accepts no more messages, even if an entry matches.
//
// lnet-core 4.3 (3), 12.6
func TestArrivalWhileTheNodeCloses(t *testing.T) {
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := newFabric().addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")})
	var r recorder
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut, Handler: &r})
	s.during = func() {
		h := lnet.Header{Type: lnet.MsgPut, Src: parseNID(t, "10.0.0.2@tcp"), Dest: s.nid, Portal: 1, Handle: lnet.NoHandle}
		if err := s.inject(h.Src, h, nil); err != nil {
			t.Error(err)
		}
	}
	close(s.release)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := r.take(); e != nil || n.Admin().Counters().Dropped != 1 {
		t.Errorf("events %+v, %d dropped; want it dropped", e, n.Admin().Counters().Dropped)
	}
}
