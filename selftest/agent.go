package selftest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// Config says how an Agent shall be; the zero value is a good one.
type Config struct {
	// SessionTimeout is how long a session lives without a framework request
	// (session_timeout), in whole seconds; 0: 100 s, negative: for ever.
	SessionTimeout time.Duration
	// RPCTimeout bounds the RPCs of clients, and the fetching of a client's
	// destinations (rpc_timeout); 0: 64 s, negative: nothing does.
	RPCTimeout time.Duration
	// BRWWorkItems and PingWorkItems bound the buffers that a server test adds
	// (brw_srv_workitems, ping_srv_workitems); 0: 2048.
	BRWWorkItems, PingWorkItems int
	// InjectErrors spoils bulks that this node sends: to a word of about every
	// second one, 1 to InjectErrors is added (brw_inject_errors); 0: to none.
	InjectErrors int

	// ClientMemory and ServerMemory bound the bulk buffers in bytes, of units
	// and of test services; RPCs wait for them. Of the latter one peer gets
	// about half at most. 0: 128 MiB; at least 1 MiB.
	ClientMemory, ServerMemory int
	// MaxUnits bounds the units, MaxTests the tests of a session: more are
	// refused with ENOMEM. 0: 65536, 4096.
	MaxUnits, MaxTests int
	// MaxServing bounds the requests being served, per portal. From a quarter of
	// it on, and at least from one, requests wait at their senders; but while data
	// of a client are waited for, which a request that waits might hold up, they
	// are accepted up to the bound and dropped beyond it. It should therefore
	// exceed the writes that clients have under way: with less than 4, as few as 4
	// units that write see RPCs fail; pings and reads never do. 0: 65536.
	MaxServing int

	// Wall is the wall clock, for match bits and the time in pings; nil:
	// time.Now.
	Wall func() time.Time
	// Logger receives what an operator should see; nil discards.
	Logger *slog.Logger
}

// What Config's zeros stand for.
const (
	defaultSessionTimeout = 100 * time.Second
	defaultRPCTimeout     = 64 * time.Second
	defaultWorkItems      = 2048
	defaultMemory         = 128 << 20
	defaultMaxUnits       = 65536
	defaultMaxTests       = 4096
	defaultMaxServing     = 65536
)

// DefaultConfig is the zero Config with its numbers spelled out.
func DefaultConfig() (c Config) {
	c.fill()
	return c
}

// complete replaces all that stands for something else.
func (c *Config) complete() {
	c.fill()
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// fill replaces the numbers that stand for others.
func (c *Config) fill() {
	zero := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	switch {
	case c.SessionTimeout == 0:
		c.SessionTimeout = defaultSessionTimeout
	case c.SessionTimeout < 0:
		c.SessionTimeout = 0
	}
	switch {
	case c.RPCTimeout == 0:
		c.RPCTimeout = defaultRPCTimeout
	case c.RPCTimeout < 0:
		c.RPCTimeout = 0
	}
	zero(&c.BRWWorkItems, defaultWorkItems)
	zero(&c.PingWorkItems, defaultWorkItems)
	zero(&c.ClientMemory, defaultMemory)
	zero(&c.ServerMemory, defaultMemory)
	c.ClientMemory = max(c.ClientMemory, message.MaxBulk)
	c.ServerMemory = max(c.ServerMemory, message.MaxBulk)
	zero(&c.MaxUnits, defaultMaxUnits)
	zero(&c.MaxTests, defaultMaxTests)
	zero(&c.MaxServing, defaultMaxServing)
}

// Agent is selftest on one node. All methods are safe for concurrent use.
type Agent struct {
	config Config

	node     *node.Node
	client   *rpc.Client
	counters rpc.Counters
	join     atomic.Pointer[JoinHandler]

	framework, tests *inbox
	requests         chan *inbound // to the framework's goroutine
	fetching         int           // lists on their way; the framework's goroutine has it
	looks            *time.Ticker  // while a batch runs; the framework's goroutine has it
	fetches          sync.WaitGroup
	clientMemory     *memory
	serverMemory     *memory
	source           func() []byte // a bulk of pattern, which is never changed

	ctx    context.Context // done when Close is called
	cancel context.CancelFunc
	ended  chan struct{} // the framework's goroutine has ended
	work   sync.WaitGroup

	mu       sync.Mutex // guards session and the lists in it
	session  *session
	features atomic.Uint32 // of the session, or message.Supported
	zombies  atomic.Int32
	units    atomic.Int64
	servers  [2]atomic.Int32 // loaded server tests: BRW, ping
	pingSeq  atomic.Uint32
	spoilt   atomic.Uint64

	log *boundedlog.Log
}

// JoinHandler answers the JOIN request of a process, as consoles do. It runs
// between other framework requests and must not block. A Header without a
// version is filled in.
type JoinHandler func(from lnet.ProcessID, q *message.JoinRequest) message.JoinReply

// Enable starts selftest on a node, on portals 50 to 52. There may be one agent
// at a time per node.
func Enable(n *node.Node, c Config) (*Agent, error) {
	c.complete()
	a := &Agent{config: c, node: n, ended: make(chan struct{}), log: boundedlog.New(c.Logger)}
	a.client = rpc.New(n, rpc.Config{Counters: &a.counters, Wall: c.Wall})
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.features.Store(uint32(message.Supported))
	a.clientMemory = newMemory(c.ClientMemory, a.spawn)
	a.serverMemory = newMemory(c.ServerMemory, a.spawn)
	a.serverMemory.fair = true
	a.source = sync.OnceValue(func() []byte {
		b := make([]byte, message.MaxBulk)
		pattern.Fill(b, message.LittleEndian)
		return b
	})
	a.looks = time.NewTicker(lookInterval)
	a.looks.Stop()
	a.requests = make(chan *inbound, c.MaxServing)
	a.framework = newInbox(a, message.FrameworkPortal, func(in *inbound) { a.requests <- in }) // there is room for all
	a.tests = newInbox(a, message.TestPortal, a.serveTest)
	go a.runFramework()
	for _, b := range []*inbox{a.framework, a.tests} {
		err := n.SetLazy(b.portal)
		if err == nil {
			err = b.add(baseBuffers)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("selftest: portal %d: %w", b.portal, err), a.Close(context.Background()))
		}
	}
	return a, nil
}

// Client makes RPCs from this node; it is closed with the agent.
func (a *Agent) Client() *rpc.Client { return a.client }

// Counters are those that a STAT request is told.
func (a *Agent) Counters() message.RPCCounters { return a.counters.Snapshot() }

// Spoilt is how many bulks InjectErrors has spoilt.
func (a *Agent) Spoilt() uint64 { return a.spoilt.Load() }

// SetJoin makes f answer JOIN requests; with nil, and at first, they are
// dropped, as nodes do.
func (a *Agent) SetJoin(f JoinHandler) {
	if f == nil {
		a.join.Store(nil)
		return
	}
	a.join.Store(&f)
}

// Close ends the session and all RPCs, those of Client included, and waits
// until nothing of them is left, or ctx is done; it may then be called again.
// It is to be called before the node is closed; after that it works, too, but
// bulk memory is then free only when the node's Close has returned.
func (a *Agent) Close(ctx context.Context) error {
	a.cancel()
	select {
	case <-a.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.fetches.Wait() // they have ended with a.ctx; nobody but the framework begins one
	a.deactivate()
	closed := a.nodeClosed()
	for _, b := range []*inbox{a.framework, a.tests} {
		_ = a.node.ClearLazy(b.portal) // it is a portal
		b.close(closed)
	}
	for _, b := range []*inbox{a.framework, a.tests} {
		if err := b.wait(ctx, b.deaf); err != nil {
			return err
		}
	}
	a.framework.abort()
	a.tests.abort()
	if err := a.drain(ctx); err != nil {
		return err
	}
	if err := a.tests.wait(ctx, a.tests.idle); err != nil {
		return err
	}
	if err := a.client.Close(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		a.log.End()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain drops the framework requests that nobody will handle any more, until none
// is being served. Handlers may still be about to bring some.
func (a *Agent) drain(ctx context.Context) error {
	for {
		select {
		case in := <-a.requests:
			in.drop()
		case <-a.framework.idle:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// spawn runs f in a goroutine that Close waits for.
func (a *Agent) spawn(f func()) { a.work.Go(f) }

// nodeClosed tells whether the node has closed, so that MDs end without events.
func (a *Agent) nodeClosed() bool {
	h, err := a.node.Bind(portals.MD{})
	if err == nil {
		_ = a.node.Unlink(h) // nobody else knows it
		return false
	}
	return errors.Is(err, node.ErrClosed)
}

// inject tells whether the next bulk is to be spoilt.
func (a *Agent) inject() bool { return a.config.InjectErrors > 0 && rand.IntN(2) == 0 }

// header is that of a reply.
func (a *Agent) header() message.Header {
	return message.NewHeader(message.Features(a.features.Load()))
}
