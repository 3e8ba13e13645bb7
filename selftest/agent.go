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

// Config configures an Agent. The zero value means the defaults.
type Config struct {
	// SessionTimeout is how long a session lives without a framework request (session_timeout), in whole
	// seconds. 0 means 100 s; a negative value means no limit.
	SessionTimeout time.Duration
	// RPCTimeout limits the RPCs of clients, and the time to fetch a client's list of destinations
	// (rpc_timeout). 0 means 64 s; a negative value means no limit.
	RPCTimeout time.Duration
	// BRWWorkItems and PingWorkItems limit the buffers that a server test adds (brw_srv_workitems,
	// ping_srv_workitems). 0 means 2048.
	BRWWorkItems, PingWorkItems int
	// InjectErrors corrupts about every second bulk that this node sends: a number from 1 to InjectErrors
	// is added to one of its words (brw_inject_errors). 0 corrupts none.
	InjectErrors int

	// ClientMemory and ServerMemory limit the bulk buffers of units and of test services, in bytes. RPCs
	// wait for memory. One peer gets at most about half of ServerMemory. 0 means 128 MiB; the minimum is
	// 1 MiB.
	ClientMemory, ServerMemory int
	// MaxUnits limits the number of units, and MaxTests the number of tests in a session. Tests beyond
	// that are refused with ENOMEM. 0 means 65536 and 4096.
	MaxUnits, MaxTests int
	// MaxServing limits the requests that are served at a time, per portal. When a quarter of it is in
	// use (at least one request), further requests wait at their senders. While served requests wait for
	// data from their clients, this could deadlock, since the data may be behind a waiting request.
	// During that time, requests are accepted up to MaxServing and dropped beyond. It should therefore
	// exceed the number of writes that clients have under way: with less than 4, as few as 4 units that
	// write see failed RPCs. Pings and reads do not fail. 0 means 65536.
	MaxServing int

	// Wall is the wall clock, used for match bits and for the time in pings. If it is nil, time.Now is
	// used.
	Wall func() time.Time
	// Logger receives messages for operators. If it is nil, they are discarded.
	Logger *slog.Logger
}

// Defaults of Config.
const (
	defaultSessionTimeout = 100 * time.Second
	defaultRPCTimeout     = 64 * time.Second
	defaultWorkItems      = 2048
	defaultMemory         = 128 << 20
	defaultMaxUnits       = 65536
	defaultMaxTests       = 4096
	defaultMaxServing     = 65536
)

// DefaultConfig returns the zero Config with all numbers set to their defaults.
func DefaultConfig() (c Config) {
	c.fill()
	return c
}

// complete sets all defaults.
func (c *Config) complete() {
	c.fill()
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// fill sets the defaults of numbers.
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

// Agent is LNet selftest on one node. All methods are safe for concurrent use.
type Agent struct {
	config Config

	node     *node.Node
	client   *rpc.Client
	counters rpc.Counters
	join     atomic.Pointer[JoinHandler]

	framework, tests *inbox
	requests         chan *inbound // read by the framework's goroutine
	fetching         int           // lists being fetched; owned by the framework's goroutine
	looks            *time.Ticker  // ticks while a batch runs; owned by the framework's goroutine
	fetches          sync.WaitGroup
	clientMemory     *memory
	serverMemory     *memory
	source           func() []byte // a bulk filled with the pattern; it is never modified

	ctx    context.Context // done when Close is called
	cancel context.CancelFunc
	ended  chan struct{} // closed when the framework's goroutine has ended
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

// JoinHandler answers a process's JOIN request, as consoles do. It runs between other framework requests
// and must not block. If the Header has no version, it is filled in.
type JoinHandler func(from lnet.ProcessID, q *message.JoinRequest) message.JoinReply

// Enable starts selftest on a node, on portals 50 to 52. A node can have one agent at a time.
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
	a.framework = newInbox(a, message.FrameworkPortal, func(in *inbound) { a.requests <- in }) // has room for all
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

// Client returns the client for RPCs from this node. Closing the agent closes it.
func (a *Agent) Client() *rpc.Client { return a.client }

// Counters returns the counters that a STAT reply contains.
func (a *Agent) Counters() message.RPCCounters { return a.counters.Snapshot() }

// Spoilt returns the number of bulks that InjectErrors has corrupted.
func (a *Agent) Spoilt() uint64 { return a.spoilt.Load() }

// SetJoin sets the handler of JOIN requests. Without one, which is the default, they are dropped, as on
// nodes without a console.
func (a *Agent) SetJoin(f JoinHandler) {
	if f == nil {
		a.join.Store(nil)
		return
	}
	a.join.Store(&f)
}

// Close ends the session and all RPCs, including those of Client. It waits until they have ended or ctx
// is done; then it may be called again. Close the agent before the node. If the node is closed first,
// Close still works, but bulk memory is in use until the node's Close has returned.
func (a *Agent) Close(ctx context.Context) error {
	a.cancel()
	select {
	case <-a.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.fetches.Wait() // they have ended with a.ctx; only the framework's goroutine starts them
	a.deactivate()
	closed := a.nodeClosed()
	for _, b := range []*inbox{a.framework, a.tests} {
		_ = a.node.ClearLazy(b.portal) // cannot fail: the portal is valid
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

// drain drops the remaining framework requests until no request is being served. Handlers may
// still add some.
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

// nodeClosed reports whether the node has been closed. Then MDs end without events.
func (a *Agent) nodeClosed() bool {
	h, err := a.node.Bind(portals.MD{})
	if err == nil {
		_ = a.node.Unlink(h) // cannot fail: the MD is not used
		return false
	}
	return errors.Is(err, node.ErrClosed)
}

// inject reports whether the next bulk is to be corrupted.
func (a *Agent) inject() bool { return a.config.InjectErrors > 0 && rand.IntN(2) == 0 }

// header returns the header of a reply.
func (a *Agent) header() message.Header {
	return message.NewHeader(message.Features(a.features.Load()))
}
