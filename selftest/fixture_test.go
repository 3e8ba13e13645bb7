package selftest

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

// stage is a network in memory with nodes.
type stage struct {
	*simlnd.Fabric
	t testing.TB
}

// onStage runs a test in a bubble, on a network with latency.
func onStage(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, Fabric: simlnd.New(simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: 50 * time.Microsecond}})}
		t.Cleanup(s.Close)
		f(t, s)
	})
}

// player is a node on a stage, possibly with an agent.
type player struct {
	*Agent
	t      testing.TB
	host   *simlnd.Host
	node   *node.Node
	id     lnet.ProcessID
	driver *socklnd.Driver
	closed bool
}

func (s *stage) player(name string, addresses ...string) *player {
	s.t.Helper()
	c := socklnd.DefaultConfig()
	c.ConnsPerPeer = 1
	c.Logger = slog.New(slog.DiscardHandler)
	p := &player{t: s.t, host: s.Host(name, addresses...)}
	d, err := simlnd.NewDriver(p.host, c)
	if err != nil {
		s.t.Fatal(err)
	}
	p.driver = d
	p.start(addresses)
	return p
}

func (p *player) start(addresses []string) {
	p.t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.node = n
	for _, a := range addresses {
		nid := lnet.NIDFromIP(tcp, netip.MustParseAddr(a))
		if _, err := n.AddNI(context.Background(), p.driver, lnd.Config{Net: tcp, NID: nid}); err != nil {
			p.t.Fatal(err)
		}
	}
	p.id = lnet.ProcessID{NID: n.NID(), PID: lnet.PIDLustre}
	p.t.Cleanup(p.close)
}

// agent enables an agent on the player's node.
func (p *player) agent(c Config) *player {
	p.t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(p.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	a, err := Enable(p.node, c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Agent = a
	return p
}

// close closes everything of the player, once.
func (p *player) close() {
	if p.closed {
		return
	}
	p.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if p.Agent != nil {
		if err := p.Close(ctx); err != nil {
			p.t.Errorf("close agent of %v: %v", p.id, err)
		}
		p.checkEmpty()
	}
	if err := p.node.Close(ctx); err != nil {
		p.t.Errorf("close %v: %v", p.id, err)
	}
	if err := p.driver.Close(); err != nil {
		p.t.Error(err)
	}
}

// checkEmpty checks that a closed agent has released everything.
func (p *player) checkEmpty() {
	p.t.Helper()
	a := p.Agent
	for name, m := range map[string]*memory{"client": a.clientMemory, "server": a.serverMemory} {
		if m.used != 0 || m.waiting.Len() != 0 {
			p.t.Errorf("%v: %d bytes of %s memory still in use", p.id, m.used, name)
		}
	}
	if z, u, b, s := a.zombies.Load(), a.units.Load(), a.servers[0].Load(), a.servers[1].Load(); z != 0 || u != 0 || b != 0 || s != 0 {
		p.t.Errorf("%v: %d zombies, %d units, %d and %d server tests left", p.id, z, u, b, s)
	}
	if a.tests.wanted != baseBuffers {
		p.t.Errorf("%v: %d buffers wanted", p.id, a.tests.wanted)
	}
}

// console sends the messages of a session one by one.
type console struct {
	t        testing.TB
	client   *rpc.Client
	id       message.SessionID
	features message.Features
	order    message.Order
}

// console returns a console on the player's node.
func (p *player) console(stamp int64) *console {
	p.t.Helper()
	nid, ok := message.NID4Of(p.id.NID)
	if !ok {
		p.t.Fatal("large NID")
	}
	c := &console{t: p.t, id: message.SessionID{NID: nid, Stamp: stamp}, features: message.BulkLength}
	if p.Agent != nil {
		c.client = p.Client()
		return c
	}
	c.client = rpc.New(p.node, rpc.Config{})
	p.t.Cleanup(func() {
		if err := c.client.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	return c
}

func (c *console) header() message.Header {
	h := message.NewHeader(c.features)
	h.Order = c.order
	return h
}

// call makes an RPC that must be answered.
func (c *console) call(to *player, q message.Request, r message.Reply, bulk ...byte) {
	c.t.Helper()
	if err := c.try(to, q, r, bulk...); err != nil {
		c.t.Fatalf("%s: %v", q.Service(), err)
	}
}

func (c *console) try(to *player, q message.Request, r message.Reply, bulk ...byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.client.Call(ctx, to.id, q, r, rpc.Bulk{Bytes: bulk})
}

func (c *console) make(to *player, force bool) (r message.MakeSessionReply) {
	c.t.Helper()
	c.call(to, &message.MakeSessionRequest{
		Header: c.header(), Session: c.id, Force: force, Name: message.NameOf(fmt.Sprint("session ", c.id.Stamp)),
	}, &r)
	return r
}

func (c *console) remove(to *player) (r message.RemoveSessionReply) {
	c.t.Helper()
	c.call(to, &message.RemoveSessionRequest{Header: c.header(), Session: c.id}, &r)
	return r
}

func (c *console) debug(to *player) (r message.DebugReply) {
	c.t.Helper()
	c.call(to, &message.DebugRequest{Header: c.header(), Session: c.id}, &r)
	return r
}

func (c *console) stat(to *player) (r message.StatReply) {
	c.t.Helper()
	c.call(to, &message.StatRequest{Header: c.header(), Session: c.id}, &r)
	return r
}

func (c *console) batch(to *player, batch uint64, op message.BatchOp, test, arg uint32) (r message.BatchReply) {
	c.t.Helper()
	c.call(to, &message.BatchRequest{
		Header: c.header(), Session: c.id, Batch: batch, Op: op, Test: test, Arg: arg,
	}, &r)
	return r
}

func (c *console) run(to *player, batch uint64) {
	c.t.Helper()
	if r := c.batch(to, batch, message.BatchRun, 0, 0); r.Status != message.OK {
		c.t.Fatalf("run: %v", r.Status)
	}
}

// test returns an endless ping test for a client. Callers may change it.
func (c *console) test(batch uint64) *message.TestRequest {
	return &message.TestRequest{
		Header: c.header(), Session: c.id, Batch: batch, Tests: message.ServicePing, Loop: ^uint32(0),
		Concurrency: 1, Client: true, StopOnError: true,
	}
}

// brw turns a test into a BRW test.
func brw(q *message.TestRequest, op uint32, length uint32, check message.Check) *message.TestRequest {
	q.Tests = message.ServiceBRW
	q.BRW = message.BRWParameters{Op: op, Flags: uint32(check), Length: length}
	if q.Features&message.BulkLength == 0 {
		q.BRW.Pages, q.BRW.Length = length/message.PageSize, 0
	}
	return q
}

func destinations(t testing.TB, servers ...*player) (list []message.Destination) {
	t.Helper()
	for _, s := range servers {
		nid, ok := message.NID4Of(s.id.NID)
		if !ok {
			t.Fatal("large NID")
		}
		list = append(list, message.Destination{NID: nid, PID: s.id.PID})
	}
	return list
}

// add adds a test to a client or, without servers, to a server.
func (c *console) add(to *player, q *message.TestRequest, servers ...*player) message.Status {
	c.t.Helper()
	q.Client = len(servers) > 0
	q.Destinations = uint32(len(servers))
	var r message.TestReply
	c.call(to, q, &r, message.AppendDestinations(nil, destinations(c.t, servers...), c.order)...)
	return r.Status
}

// prepare makes a session on both players and adds a test to both.
func (c *console) prepare(client, server *player, batch uint64, q *message.TestRequest) {
	c.t.Helper()
	c.make(server, false)
	if client != server {
		c.make(client, false)
	}
	for k, status := range []message.Status{c.add(server, q), c.add(client, q, server)} {
		if status != message.OK {
			c.t.Fatalf("add test to %d: %v", k, status)
		}
	}
}

// idle waits until a batch has ended, in steps of a second.
func (c *console) idle(on *player, batch uint64) {
	c.t.Helper()
	for range 300 {
		if r := c.batch(on, batch, message.BatchQuery, 0, 0); r.Status != message.OK {
			c.t.Fatalf("query: %v", r.Status)
		} else if r.Active == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	c.t.Fatalf("batch %d does not end", batch)
}

// puts returns how many PUTs and ACKs the player's NI has sent and received.
func (p *player) puts() (sent, received uint64) {
	t := p.node.NIs()[1].Traffic
	return t.Sent.Put, t.Received.Put
}

func latencyOf(d time.Duration) simlnd.Link { return simlnd.Link{Latency: d} }

// load returns the number of test requests being served and of posted buffers.
func (p *player) load() (busy, posted int) {
	p.tests.mu.Lock()
	defer p.tests.mu.Unlock()
	return p.tests.busy.Len(), p.tests.posted.Len()
}

func inUse(m *memory) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
