package selftest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// Given three nodes that test each other, when connections break, nodes are isolated, sessions are taken
// over, expire or end early, and agents are closed and enabled, then nothing is left after all have been
// closed, and no bulk was corrupt.
func TestChaos(t *testing.T) {
	for seed := range testenv.Fewer(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				c := &chaos{stage: s, t: t, rand: rand.New(rand.NewPCG(uint64(seed), 1))}
				c.run()
			})
		})
	}
}

type chaos struct {
	*stage
	t       *testing.T
	rand    *rand.Rand
	console *console
	nodes   []*player
	stamp   int64
	ran     int
}

func (c *chaos) run() {
	c.console = c.player("console", "10.0.0.1").console(1)
	for k := range 3 {
		p := c.player(fmt.Sprint("node", k), fmt.Sprintf("10.0.0.%d", 10+k))
		c.nodes = append(c.nodes, p.agent(c.config()))
	}
	for _, a := range c.nodes {
		for _, b := range c.nodes {
			if a != b {
				c.SetLink(a.host, b.host, 0, latencyOf(20*time.Millisecond))
			}
		}
	}
	for range 50 {
		c.step()
		time.Sleep(time.Duration(c.rand.Int64N(int64(time.Second))))
		for _, p := range c.nodes {
			if i, ok := p.Session(); ok && i.BRWErrors > 0 && p.Counters().Errors+p.Counters().Expired == 0 {
				c.t.Errorf("%v: %d bulks wrong", p.id, i.BRWErrors)
			}
		}
	}
	if c.ran == 0 {
		c.t.Error("no batch has run")
	}
}

func (c *chaos) config() Config {
	return Config{
		SessionTimeout: 20 * time.Second, RPCTimeout: 15 * time.Second, Logger: slog.New(slog.DiscardHandler),
		ClientMemory: 2 << 20, ServerMemory: 2 << 20, MaxServing: 400,
	}
}

func (c *chaos) any() *player { return c.nodes[c.rand.IntN(len(c.nodes))] }

// step performs one random action.
func (c *chaos) step() {
	a := c.any()
	b := c.any()
	for a == b { // a node's RPCs to itself take no time, so the test would not end
		b = c.any()
	}
	switch c.rand.IntN(10) {
	case 0:
		c.Break(a.host, b.host)
	case 1:
		c.Partition(a.host, b.host, 0)
		time.AfterFunc(time.Duration(c.rand.Int64N(int64(30*time.Second))), func() { c.Heal(a.host, b.host, 0) })
	case 2:
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			c.t.Errorf("close: %v", err)
		}
		a.checkEmpty()
		a.agent(c.config())
	case 3:
		c.ask(a, &message.RemoveSessionRequest{Header: c.console.header(), Session: c.session()}, new(message.RemoveSessionReply))
	case 4, 5:
		op := message.BatchOp(1 + c.rand.IntN(3))
		c.ask(a, &message.BatchRequest{
			Header: c.console.header(), Session: c.session(), Batch: 1, Op: op, Arg: uint32(c.rand.IntN(2)),
		}, new(message.BatchReply))
	default:
		c.begin(a, b)
	}
}

// session returns the ID of the console's latest session.
func (c *chaos) session() message.SessionID {
	id := c.console.id
	id.Stamp = c.stamp
	return id
}

// ask makes an RPC that may fail.
func (c *chaos) ask(to *player, q message.Request, r message.Reply, bulk ...byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := c.console.client.Call(ctx, to.id, q, r, rpc.Bulk{Bytes: bulk})
	if errors.Is(err, rpc.ErrBadReply) || errors.Is(err, rpc.ErrBadVersion) {
		c.t.Error(err)
	}
	return err == nil
}

// begin makes a session on two nodes by force, and runs a batch.
func (c *chaos) begin(client, server *player) {
	c.stamp++
	h := c.console.header()
	for _, p := range []*player{client, server} {
		q := &message.MakeSessionRequest{Header: h, Session: c.session(), Force: true}
		if !c.ask(p, q, new(message.MakeSessionReply)) {
			return
		}
	}
	for range 1 + c.rand.IntN(3) {
		q := c.console.test(1)
		q.Session, q.Concurrency, q.StopOnError = c.session(), 1+c.rand.Uint32N(8), c.rand.IntN(2) == 0
		if c.rand.IntN(4) > 0 {
			sizes := []uint32{8, 4096, 65536, 1 << 20}
			brw(q, 1+c.rand.Uint32N(2), sizes[c.rand.IntN(len(sizes))], message.Check(1+c.rand.Uint32N(4)))
		}
		q.Client = false
		if !c.ask(server, q, new(message.TestReply)) {
			return
		}
		q.Client, q.Destinations = true, 1
		list := message.AppendDestinations(nil, destinations(c.t, server), message.LittleEndian)
		if !c.ask(client, q, new(message.TestReply), list...) {
			return
		}
	}
	var r message.BatchReply
	if c.ask(client, &message.BatchRequest{Header: h, Session: c.session(), Batch: 1, Op: message.BatchRun}, &r) && r.Status == message.OK {
		c.ran++
	}
}
