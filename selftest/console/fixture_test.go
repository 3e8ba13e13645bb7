package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
)

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

const key Key = 77

// stage is a network in memory with a console at 10.0.0.100 and nodes with agents at 10.0.0.1 and so on.
type stage struct {
	*simlnd.Fabric
	*Console
	t      *testing.T
	ctx    context.Context
	master *player
	nodes  []*player
}

// player is a node of a stage.
type player struct {
	t      *testing.T
	host   *simlnd.Host
	driver *socklnd.Driver
	node   *node.Node
	agent  *selftest.Agent // nil: no agent
	nid    lnet.NID
}

// onStage runs a test in a bubble with a console and n nodes.
func onStage(t *testing.T, n int, f func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			t: t, ctx: t.Context(),
			Fabric: simlnd.New(simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: 50 * time.Microsecond}}),
		}
		t.Cleanup(s.Fabric.Close)
		s.master = s.player("console", "10.0.0.100", true)
		s.Console = s.console(s.master)
		for k := range n {
			s.nodes = append(s.nodes, s.player(fmt.Sprint("node", k+1), fmt.Sprint("10.0.0.", k+1), true))
		}
		f(t, s)
	})
}

func (s *stage) player(name, address string, agent bool) *player {
	s.t.Helper()
	c := socklnd.DefaultConfig()
	c.ConnsPerPeer = 1
	c.Logger = slog.New(slog.DiscardHandler)
	p := &player{t: s.t, host: s.Host(name, address), nid: lnet.NIDFromIP(tcp, netip.MustParseAddr(address))}
	var err error
	if p.driver, err = simlnd.NewDriver(p.host, c); err != nil {
		s.t.Fatal(err)
	}
	if p.node, err = node.New(node.Config{}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := p.node.AddNI(s.ctx, p.driver, lnd.Config{Net: tcp, NID: p.nid}); err != nil {
		s.t.Fatal(err)
	}
	if agent {
		if p.agent, err = selftest.Enable(p.node, selftest.Config{}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Cleanup(p.close)
	return p
}

func (p *player) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Second)
	defer cancel()
	if p.agent != nil {
		if err := p.agent.Close(ctx); err != nil {
			p.t.Errorf("close agent of %v: %v", p.nid, err)
		}
	}
	if err := p.node.Close(ctx); err != nil {
		p.t.Errorf("close %v: %v", p.nid, err)
	}
	if err := p.driver.Close(); err != nil {
		p.t.Error(err)
	}
}

// console creates another console on p.
func (s *stage) console(p *player) *Console {
	c := New(p.node, p.agent, Config{})
	s.t.Cleanup(func() { shut(s.t, c) })
	return c
}

func shut(t *testing.T, c *Console) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close console: %v", err)
	}
}

// slow gives messages a latency of 50 ms, so that endless tests do not make millions of RPCs while
// nothing else happens.
func (s *stage) slow() {
	all := append(slices.Clone(s.nodes), s.master)
	for _, a := range all {
		for _, b := range all {
			if a != b {
				s.SetLink(a.host, b.host, simlnd.Both, simlnd.Link{Latency: 50 * time.Millisecond})
			}
		}
	}
}

// cut isolates a node from the network.
func (s *stage) cut(p *player) {
	for _, o := range append(slices.Clone(s.nodes), s.master) {
		if o != p {
			s.Partition(p.host, o.host, simlnd.Both)
		}
	}
}

// mend undoes cut.
func (s *stage) mend(p *player) {
	for _, o := range append(slices.Clone(s.nodes), s.master) {
		if o != p {
			s.Heal(p.host, o.host, simlnd.Both)
		}
	}
}

// session makes a session with groups. For example, "c=1-2" is 10.0.0.[1-2]@tcp.
func (s *stage) session(groups ...[2]string) {
	s.t.Helper()
	if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: "test"}); err != nil {
		s.t.Fatal(err)
	}
	for _, g := range groups {
		s.group(g[0], g[1])
	}
}

// group adds a group of active nodes.
func (s *stage) group(name, last string) {
	s.t.Helper()
	a, err := s.AddGroup(s.ctx, key, name, []string{ids(last)})
	if err != nil || !a.Lists[0].Added || !a.Lists[0].Result.OK() {
		s.t.Fatalf("group %s: %+v, %v", name, a, err)
	}
}

// ids returns 10.0.0.[LAST]@tcp.
func ids(last string) string { return "10.0.0.[" + last + "]@tcp" }

// add adds a test that all nodes must accept.
func (s *stage) add(t Test) {
	s.t.Helper()
	if a, err := s.AddTest(s.ctx, key, t); err != nil || !a.OK() {
		s.t.Fatalf("add %+v: %+v, %v", t, a, err)
	}
}

// run runs a batch on all its clients.
func (s *stage) run(batch string) {
	s.t.Helper()
	if r, err := s.Run(s.ctx, key, batch, 0); err != nil || !r.OK() {
		s.t.Fatalf("run: %+v, %v", r, err)
	}
}

// idle waits until no client of a batch is running.
func (s *stage) idle(batch string) {
	s.t.Helper()
	for range 300 {
		q, err := s.Query(s.ctx, key, batch, QueryOptions{})
		if err != nil || q.Failed > 0 {
			s.t.Fatalf("query: %+v, %v", q, err)
		}
		if q.Running == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	s.t.Fatalf("batch %s does not end", batch)
}

// stat reads counters of nodes, which must all answer.
func (s *stage) stat(targets ...string) Sample {
	s.t.Helper()
	v, err := s.Stat(s.ctx, key, targets, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, g := range v.Targets {
		if g.Failed > 0 {
			s.t.Fatalf("stat: %+v", v)
		}
	}
	return v
}

// empty checks that nodes have no session.
func (s *stage) empty(nodes ...*player) {
	s.t.Helper()
	for _, p := range nodes {
		if i, ok := p.agent.Session(); ok {
			s.t.Errorf("%v is in session %q", p.nid, i.Name)
		}
	}
}

// pingTest returns a ping test from group c to group s. Callers may change it.
func pingTest() Test {
	return Test{Batch: "batch", From: "c", To: "s", Kind: PingTest, Loop: -1, Concurrency: 1, Distribute: 1, Span: 1}
}

// want checks that err has the errno, is about the given kind of object, and has a reason or a name.
func want(t *testing.T, what string, err error, errno syscall.Errno, thing string) {
	t.Helper()
	var e *Error
	switch {
	case !errors.As(err, &e) || !errors.Is(err, errno):
		t.Errorf("%s: %v, want %v", what, err, errno)
	case e.What != thing:
		t.Errorf("%s: about %s: %v", what, e.What, err)
	}
}

// states returns the states of a group's nodes.
func (s *stage) states(group string) (list []State) {
	s.t.Helper()
	g, err := s.Group(key, group)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range g.Nodes {
		list = append(list, n.State)
	}
	return list
}
