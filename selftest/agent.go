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

// Config holds the parameters of an Agent. The zero value means the defaults.
type Config struct {
	// SessionTimeout is the time after which a session ends if no framework request arrives
	// (session_timeout), in whole seconds. 0 means 100 s; a negative value means no limit.
	SessionTimeout time.Duration
	// RPCTimeout limits the RPCs of the tests in which this node is a client, and the time to fetch the list
	// of destinations of such a test (rpc_timeout). 0 means 64 s; a negative value means no limit.
	RPCTimeout time.Duration
	// BRWWorkItems and PingWorkItems limit the request buffers that a server test adds, for BRW and ping
	// tests (brw_srv_workitems, ping_srv_workitems). 0 means 2048.
	BRWWorkItems, PingWorkItems int
	// InjectErrors, if not 0, makes the agent corrupt about every second bulk that it sends: it adds a random
	// number from 1 to InjectErrors to one word (brw_inject_errors).
	InjectErrors int

	// ClientMemory and ServerMemory limit the memory for bulk data, in bytes: of tests in which this node is
	// a client, and of requests that it serves. RPCs wait if no memory is available. One peer gets at most
	// about half of ServerMemory. 0 means 128 MiB; the minimum is 1 MiB.
	ClientMemory, ServerMemory int
	// MaxUnits limits the number of units, and MaxTests the number of tests in a session. A test that would
	// exceed these is refused with ENOMEM. 0 means 65536 units and 4096 tests.
	MaxUnits, MaxTests int
	// MaxServing limits the number of requests that are served at a time, per portal. When a quarter of it is
	// in use (at least one request), further requests wait at their senders.
	//
	// While served requests wait for data from their clients, this could deadlock, because the data may be
	// behind a waiting request. During that time requests are accepted up to MaxServing, and dropped beyond.
	// So MaxServing should exceed the number of writes that clients have in progress. With less than 4, four
	// units that write are enough to make RPCs fail. Pings and reads do not fail. 0 means 65536.
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

// complete sets all fields that are not set to their defaults.
func (c *Config) complete() {
	c.fill()
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// fill sets the numbers that are not set to their defaults. No limit becomes 0.
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

// Agent makes one node take part in LNet selftest. All methods are safe for concurrent use.
type Agent struct {
	config Config

	node     *node.Node
	client   *rpc.Client
	counters rpc.Counters
	join     atomic.Pointer[JoinHandler]

	framework, tests *inbox
	requests         chan *inbound // framework requests, handled by the framework's goroutine
	fetching         int           // lists of destinations being fetched; owned by the framework's goroutine
	stuckTicker      *time.Ticker  // triggers checkStuck while a batch runs; owned by the framework's goroutine
	fetches          sync.WaitGroup
	clientMemory     *memory
	serverMemory     *memory
	source           func() []byte // returns a bulk filled with the pattern, which is never modified

	ctx    context.Context // canceled when Close is called
	cancel context.CancelFunc
	ended  chan struct{} // closed when the framework's goroutine has ended
	work   sync.WaitGroup

	mu        sync.Mutex // guards session and the lists in it
	session   *session
	features  atomic.Uint32 // features of the session; message.Supported without a session
	zombies   atomic.Int32
	units     atomic.Int64
	servers   [2]atomic.Int32 // number of server tests in the session: BRW, ping
	pingSeq   atomic.Uint32
	corrupted atomic.Uint64

	log *boundedlog.Log
}

// JoinHandler answers the JOIN request of a process, which a console does. It runs between other framework
// requests and must not block. If the Header of its reply has no version, the agent sets the Header.
type JoinHandler func(from lnet.ProcessID, q *message.JoinRequest) message.JoinReply

// Enable starts selftest on a node. It uses portals 50 to 52. A node can have only one agent at a time.
// Agent.Close ends it.
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
	a.stuckTicker = time.NewTicker(stuckCheckInterval)
	a.stuckTicker.Stop()
	a.requests = make(chan *inbound, c.MaxServing)
	a.framework = newInbox(a, message.FrameworkPortal, func(in *inbound) { a.requests <- in }) // requests has room for all
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

// Client returns the RPC client of this node. Closing the agent closes it.
func (a *Agent) Client() *rpc.Client { return a.client }

// Counters returns the RPC counters that the agent reports to consoles in STAT replies.
func (a *Agent) Counters() message.RPCCounters { return a.counters.Snapshot() }

// Spoilt returns the number of bulks that the agent has corrupted because of InjectErrors.
func (a *Agent) Spoilt() uint64 { return a.corrupted.Load() }

// SetJoin sets the handler of JOIN requests. If f is nil, which is the default, JOIN requests are dropped, as
// on nodes without a console.
func (a *Agent) SetJoin(f JoinHandler) {
	if f == nil {
		a.join.Store(nil)
		return
	}
	a.join.Store(&f)
}

// Close ends the session and all RPCs, including those of Client. It waits until they have ended or ctx is
// done; in the latter case it may be called again. Close the agent before the node. If the node is closed
// first, Close still works, but bulk memory is in use until the node's Close has returned.
func (a *Agent) Close(ctx context.Context) error {
	a.cancel()
	select {
	case <-a.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.fetches.Wait() // fetches end when a.ctx is canceled; the goroutine that starts them has ended
	a.deactivate()
	closed := a.nodeClosed()
	for _, b := range []*inbox{a.framework, a.tests} {
		_ = a.node.ClearLazy(b.portal) // cannot fail: the portal is valid
		b.close(closed)
	}
	for _, b := range []*inbox{a.framework, a.tests} {
		if err := b.wait(ctx, b.unposted); err != nil {
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

// drain drops the framework requests that have not been handled, until no framework request is being served.
// Event handlers may add requests while drain runs.
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

// nodeClosed reports whether the node has been closed. MDs of a closed node end without events.
func (a *Agent) nodeClosed() bool {
	h, err := a.node.Bind(portals.MD{})
	if err == nil {
		_ = a.node.Unlink(h) // cannot fail: the MD is not used
		return false
	}
	return errors.Is(err, node.ErrClosed)
}

// inject reports whether the next bulk must be corrupted (Config.InjectErrors).
func (a *Agent) inject() bool { return a.config.InjectErrors > 0 && rand.IntN(2) == 0 }

// header returns the header for a reply, with the features of the session.
func (a *Agent) header() message.Header {
	return message.NewHeader(message.Features(a.features.Load()))
}
