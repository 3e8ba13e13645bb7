package clients

import (
	"context"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// Two clients exchange a message and bulk. The payload moves from memory to memory.
//
// transport 9.1, 9.2, 9.3, 9.4
func TestSession(t *testing.T) {
	t.Run("Memory", func(t *testing.T) { session(t, newWorld(t, nil)) })
	t.Run("Node", func(t *testing.T) {
		session(t, newWorld(t, func(c *Config) { c.Core = inproc.New(startNode(t)) }))
	})
}

// startNode starts a node with the NID of these tests, on a network in memory.
func startNode(t *testing.T) *node.Node {
	t.Helper()
	fabric := simlnd.New(simlnd.Config{})
	t.Cleanup(fabric.Close)
	const address = "10.0.0.1"
	d, err := simlnd.NewDriver(fabric.Host(address, address), socklnd.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{}, d, home.String())
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

func session(t *testing.T, w *world) {
	a, b := w.join(), w.join()
	if a.hello.Incarnation != 77 || a.hello.Connection == b.hello.Connection {
		t.Errorf("%+v, %+v", a.hello, b.hello)
	}
	var nids protocol.NIDsReply
	a.must(&protocol.NIDsGet{}, &nids)
	if len(nids.NIDs) != 2 || !slices.Contains(nids.NIDs, home) {
		t.Errorf("NIDs %v", nids.NIDs)
	}
	ma, mb := a.share(8192), b.share(8192)
	ta, tb := a.start(34, protocol.DynamicTMID, 16), b.start(34, 7, 16)
	if ta.at.TMID != transport.MaxTMID {
		t.Errorf("started at %v", ta.at)
	}
	out := a.register(protocol.Range{Area: ma.id, Length: 4096, Offset: 4096}, protocol.Range{Area: ma.id, Length: 4096})
	in := b.register(protocol.Range{Area: mb.id, Length: 4096})
	bulk := b.register(protocol.Range{Area: mb.id, Length: 4096, Offset: 4096})
	copy(ma.memory.Bytes()[4096:], "message")

	tb.begin(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1024, MaxMessages: 2}, in, 1))
	ta.submit(to(of(shm.Submission{Opcode: shm.OpMsgSend, Length: 7}, out, 1), tb.at))
	if c := ta.next(); c.Errno != 0 || !c.Final || c.Buffer != out.Index || c.Generation != out.Generation || c.Operation != 1 {
		t.Errorf("sent: %+v", c)
	}
	c := tb.next()
	if c.Errno != 0 || c.Final || c.Length != 7 || c.Offset != 0 || c.Sender != home || c.TMID != ta.at.TMID || c.Portal != 34 || c.PID != ta.at.PID {
		t.Errorf("received: %+v", c)
	}
	if got := string(mb.memory.Bytes()[:7]); got != "message" {
		t.Errorf("received %q", got)
	}
	if c.Time < b.hello.Now || c.Time > w.server.now() {
		t.Errorf("at %d, not since %d", c.Time, b.hello.Now)
	}

	bits := uint64(transport.MakeMatchBits(7, 1))
	tb.begin(of(shm.Submission{Opcode: shm.OpPassiveSend, MatchBits: bits, Length: 4096}, bulk, 1))
	copy(mb.memory.Bytes()[4096:], "bulk")
	ta.submit(to(of(shm.Submission{Opcode: shm.OpActiveRecv, MatchBits: bits, Length: 4096}, out, 2), tb.at))
	if c := ta.next(); c.Errno != 0 || c.Operation != 2 || c.Length != 4096 {
		t.Errorf("fetched: %+v", c)
	}
	if c := tb.next(); c.Errno != 0 || !c.Final || c.Buffer != bulk.Index {
		t.Errorf("was fetched: %+v", c)
	}
	if got := string(ma.memory.Bytes()[4096:4100]); got != "bulk" {
		t.Errorf("fetched %q", got)
	}

	tb.submit(of(shm.Submission{Opcode: shm.OpCancel}, in, 1))
	if c := tb.next(); c.Errno == 0 || !c.Final || c.Rejected || c.Buffer != in.Index {
		t.Errorf("cancelled: %+v", c)
	}
	var counters protocol.Counters
	b.must(&protocol.StatsGet{Handle: tb.handle}, &counters)
	if counters.Submissions != 5 || counters.Completions != 3 {
		t.Errorf("%+v", counters)
	}
	b.must(&protocol.TMStop{Handle: tb.handle}, &counters)
	for _, r := range []protocol.Request{
		&protocol.BufDeregister{Index: in.Index, Generation: in.Generation},
		&protocol.BufDeregister{Index: bulk.Index, Generation: bulk.Generation}, &protocol.AreaDel{Area: mb.id},
	} {
		b.must(r, &protocol.Empty{})
	}
	asked := w.server.Clients()[1].Requests + 1
	b.must(&protocol.StatsGet{Handle: protocol.NoHandle}, &counters)
	if counters.Submissions != 5 || counters.Completions != 3 || counters.Requests != asked {
		t.Errorf("%+v", counters)
	}
}
