package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/latency"
)

// Parameters of a measurement with a router.
const (
	routedInFlight = 64                     // exchanges in flight of all clients together
	routedTime     = 3 * time.Second        // approximate length of the measurement with routedInFlight
	probeTime      = 500 * time.Millisecond // approximate length of the measurement with one exchange in flight
	// MaxServers is the maximum number of servers behind the router, limited by the number of addresses.
	MaxServers = 5_000
)

// serverNet is the net of the servers behind the router. The clients are on the net tcp.
var serverNet = lnet.MakeNet(lnet.TypeTCP, 1)

// RouterFar is the address of the router on the net of the servers. On the other one it has that of Config.Server.
var RouterFar = netip.AddrFrom4([4]byte{127, 0, 0, 4})

// serverAddress returns the address of server k, on the loopback device.
func serverAddress(k int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 2, byte(k / 250), byte(1 + k%250)})
}

// Routed is the result of a measurement with a router between clients on one net and servers on another. All of them
// are whole nodes.
type Routed struct {
	Clients int `json:"clients"`
	Servers int `json:"servers"`
	// Connections is the number of connections between the clients and the router.
	Connections int `json:"connections"`
	// Bytes is the memory of Go in the router's process for each client, with its connections.
	Bytes int `json:"client_bytes"`
	// IdleCPU is the share of a processor that the router uses while no messages are sent.
	IdleCPU float64 `json:"idle_cpu"`
	// First is the time until the clients have exchanged a message with a server for the first time, and Again the
	// same after the router has restarted.
	First RoutedRush `json:"first"`
	Again RoutedRush `json:"again"`
	// Rate is the number of exchanges per second with routedInFlight in flight, by all clients in turn. An exchange
	// is a PUT without payload and its ACK. CPU, Calls and Wakeups are the costs of each to the router, as in
	// RoutedRush.
	Rate    float64 `json:"exchanges_per_s"`
	CPU     float64 `json:"cpu_us"`
	Calls   float64 `json:"io_syscalls"`
	Wakeups float64 `json:"wakeups"`
	// Alone is the time of an exchange if no other is in flight.
	Alone Percentiles `json:"alone"`
}

// RoutedRush is what it costs that all clients exchange a message at the same time.
type RoutedRush struct {
	// Half and All are the times in seconds from the moment at which the router was ready until half of the clients,
	// and all of them, had the answer to a message.
	Half float64 `json:"half_s"`
	All  float64 `json:"all_s"`
	// CPU is the router's processor time in microseconds for each client, and Calls the number of its system calls
	// that read or write.
	CPU   float64 `json:"cpu_us"`
	Calls float64 `json:"io_syscalls"`
	// Messages is the number of messages that each client sent and received, with those of LNet itself.
	Messages float64 `json:"messages"`
	// Failed is the number of messages that failed and were sent again.
	Failed int64 `json:"failed"`
	// Failure is the error of the last one.
	Failure string `json:"failure,omitempty"`
}

// nodeGroup is a group of nodes in this process, each with one NI on the same net, with routes to another net through
// the router.
type nodeGroup struct {
	driver *socklnd.Driver
	nodes  []*node.Node
	ifaces []lnd.Interface
}

// groupDriver is a driver that remembers the interfaces that it has opened.
type groupDriver struct {
	*socklnd.Driver
	group *nodeGroup
}

// Open implements lnd.Driver.
func (d groupDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.Driver.Open(ctx, c)
	if err == nil {
		d.group.ifaces = append(d.group.ifaces, i)
	}
	return i, err
}

// startGroup starts n nodes on the net local. The gateway is the router's address there. accept reports whether they
// accept connections. The caller must close the group.
func startGroup(ctx context.Context, c *Config, n int, accept bool, local, remote lnet.Net, gateway netip.Addr, address func(int) netip.Addr) (_ *nodeGroup, err error) {
	driver := socklnd.UnprivilegedConfig(c.Port)
	driver.Network, driver.Logger = staticNetwork{socklnd.HostNetwork()}, c.Logger
	if !accept {
		driver.Accept = socklnd.AcceptNone
	}
	// The router connects to all nodes of this process at the same time, from one address.
	driver.MaxHalfOpenPerSource = driver.MaxHalfOpen
	g := &nodeGroup{}
	if g.driver, err = socklnd.New(driver); err != nil {
		return nil, err
	}
	routes := []node.NewRoute{{Net: remote, Gateway: lnet.NIDFromIP(local, gateway)}}
	for k := range n {
		if err := g.add(ctx, c, lnet.NIDFromIP(local, address(k)), routes); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	return g, nil
}

// add starts a node with one NI and the given routes.
func (g *nodeGroup) add(ctx context.Context, c *Config, nid lnet.NID, routes []node.NewRoute) error {
	one, err := node.New(node.Config{Logger: c.Logger})
	if err != nil {
		return err
	}
	g.nodes = append(g.nodes, one)
	if _, err := one.AddNI(ctx, groupDriver{g.driver, g}, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		return err
	}
	errs, err := one.Admin().AddRoutes(ctx, routes)
	return errors.Join(append(errs, err)...)
}

// close closes the nodes, several at the same time.
func (g *nodeGroup) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	const atOnce = 16
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for k := range errs {
		all.Go(func() {
			for j := k; j < len(g.nodes); j += atOnce {
				errs[k] = errors.Join(errs[k], g.nodes[j].Close(ctx))
			}
		})
	}
	all.Wait()
	return errors.Join(append(errs, g.driver.Close())...)
}

// ServeRouter runs the router of a measurement. It calls ready when it forwards messages, and returns when ctx is
// done.
func ServeRouter(ctx context.Context, c Config, ready func()) (err error) {
	d, closer, err := c.openDriver(socklnd.DefaultConfig().Tunables.PeerCredits)
	if err != nil {
		return err
	}
	n, err := node.New(node.Config{Logger: c.Logger, Routing: true})
	if err != nil {
		return errors.Join(err, closer())
	}
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), setupTime)
		defer cancel()
		err = errors.Join(err, n.Close(last), closer())
	}()
	for _, nid := range []lnet.NID{lnet.NIDFromIP(tcp, c.Server), lnet.NIDFromIP(serverNet, RouterFar)} {
		if _, err := n.AddNI(ctx, d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
			return err
		}
	}
	ready()
	<-ctx.Done()
	return nil
}

// ServeServers runs n servers behind the router. It calls ready when they accept messages, and returns when ctx is
// done.
func ServeServers(ctx context.Context, c Config, n int, ready func()) (err error) {
	g, err := startGroup(ctx, &c, n, true, serverNet, tcp, RouterFar, serverAddress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for _, one := range g.nodes {
		_, err := one.Attach(portals.Entry{Portal: portal, MatchBits: putBits}, portals.MD{
			Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote | portals.Truncate,
		})
		if err != nil {
			return err
		}
	}
	ready()
	<-ctx.Done()
	return nil
}

// Clients is a group of clients that reach servers through a router.
type Clients struct {
	group   *nodeGroup
	servers int
	all     []*routedClient
	failed  atomic.Int64
	failure atomic.Pointer[error]  // of the message that failed last
	stream  atomic.Pointer[stream] // nil while no stream runs
}

// routedClient is a client that sends one message at a time, to the same server.
type routedClient struct {
	of     *Clients
	node   *node.Node
	to     lnet.ProcessID
	busy   atomic.Bool // a message is under way
	served atomic.Bool // an answer has come since the last rush began
}

// routedMessage is an exchange of a client. It implements portals.Handler.
type routedMessage struct {
	from  *routedClient
	began time.Time
	ended atomic.Bool
}

// stream is a number of exchanges by all clients in turn.
type stream struct {
	n            int64
	begun, ended atomic.Int64
	turn         atomic.Int64      // of the next client
	times        *latency.Recorder // nil: not recorded
	done         chan struct{}
	failed       chan error // of capacity one: receives the error of the first exchange that fails
}

// NewClients starts n clients of the given number of servers. They do not send messages before First. The caller must
// call Close.
func NewClients(ctx context.Context, c Config, n, servers int) (_ *Clients, err error) {
	s := &Clients{servers: servers}
	if s.group, err = startGroup(ctx, &c, n, false, tcp, serverNet, c.Server, memberAddress); err != nil {
		return nil, err
	}
	for k, one := range s.group.nodes {
		to := lnet.ProcessID{NID: lnet.NIDFromIP(serverNet, serverAddress(k%servers)), PID: lnet.PIDLustre}
		s.all = append(s.all, &routedClient{of: s, node: one, to: to})
	}
	return s, nil
}

// Close closes the clients.
func (s *Clients) Close(context.Context) error { return s.group.close() }

// First makes each client exchange a message with its server through the router, which is the process passive. Then it
// measures streams of messages. It sets all results except r.Again.
func (s *Clients) First(ctx context.Context, passive *Process, r *Routed) error {
	none, err := passive.memoryInUse()
	if err != nil {
		return err
	}
	r.Clients, r.Servers = len(s.all), s.servers
	if r.First, err = s.rush(ctx, passive); err != nil {
		return err
	}
	idle, err := costsWithin(ctx, passive, idleTime)
	if err != nil {
		return err
	}
	r.IdleCPU = idle[CPU] / float64(idleTime.Microseconds())
	all, err := passive.memoryInUse()
	if err != nil {
		return err
	}
	r.Bytes = (all - none) / len(s.all)
	for _, i := range s.group.ifaces {
		r.Connections += connectionsOf(i)
	}
	return s.streams(ctx, passive, r)
}

// Again makes each client exchange a message through the router, which has restarted.
func (s *Clients) Again(ctx context.Context, passive *Process, r *Routed) (err error) {
	r.Again, err = s.rush(ctx, passive)
	return err
}

// rush makes all clients send a message, which they repeat until an answer comes, and waits until all have had one.
func (s *Clients) rush(ctx context.Context, passive *Process) (r RoutedRush, err error) {
	if err := passive.beginCosts(false); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stormLimit, fmt.Errorf("not all clients are served after %v", stormLimit))
	defer cancel()
	for _, m := range s.all {
		m.served.Store(false)
	}
	failed, messages := s.failed.Load(), s.messages()
	s.failure.Store(nil)
	if r.All, err = serveAll(ctx, s.all, time.Now(), &r.Half); err != nil {
		if last := s.failure.Load(); last != nil {
			err = fmt.Errorf("%w; the last message that failed: %w", err, *last)
		}
		return r, err
	}
	r.Failed = s.failed.Load() - failed
	r.Messages = float64(s.messages()-messages) / float64(len(s.all))
	if err := s.failure.Load(); err != nil {
		r.Failure = (*err).Error()
	}
	cost, err := passive.endCosts()
	each := cost.each(len(s.all), nil)
	r.CPU, r.Calls = each[CPU], each[IOSyscalls]
	return r, err
}

// messages returns the number of messages that the clients have sent and received.
func (s *Clients) messages() (n uint64) {
	for _, m := range s.all {
		c := m.node.Admin().Counters()
		n += c.Sent + c.Received
	}
	return n
}

// streams measures exchanges by all clients in turn.
func (s *Clients) streams(ctx context.Context, passive *Process, r *Routed) error {
	first := 2 * len(s.all)
	took, err := s.run(ctx, first, routedInFlight, nil)
	if err != nil {
		return err
	}
	if err := passive.beginCosts(false); err != nil {
		return err
	}
	n := max(first, int(float64(first)*routedTime.Seconds()/took.Seconds()))
	if took, err = s.run(ctx, n, routedInFlight, nil); err != nil {
		return err
	}
	cost, err := passive.endCosts()
	if err != nil {
		return err
	}
	each := cost.each(n, nil)
	r.Rate, r.CPU, r.Calls, r.Wakeups = float64(n)/took.Seconds(), each[CPU], each[IOSyscalls], each[Wakeups]
	var times latency.Recorder
	alone := int(max(1000, r.Rate*probeTime.Seconds()/routedInFlight))
	if _, err := s.run(ctx, alone, 1, &times); err != nil {
		return err
	}
	r.Alone = percentilesOf(timesAsCost(&times), "")
	return nil
}

// run makes n exchanges, with inFlight in flight, and returns the time taken. It records the time of each in times,
// unless that is nil. If an exchange fails, it returns the error at once.
func (s *Clients) run(ctx context.Context, n, inFlight int, times *latency.Recorder) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stormLimit)
	defer cancel()
	r := &stream{n: int64(n), times: times, done: make(chan struct{}), failed: make(chan error, 1)}
	s.stream.Store(r)
	defer s.stream.Store(nil)
	start := time.Now()
	for range min(n, inFlight, len(s.all)) {
		s.next(r)
	}
	select {
	case <-r.done:
		return time.Since(start), nil
	case err := <-r.failed:
		return 0, fmt.Errorf("%d of %d exchanges through the router, then one failed: %w", r.ended.Load(), n, err)
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d exchanges through the router: %w", r.ended.Load(), n, ctx.Err())
	}
}

// next makes the next client that does not wait for an answer send a message, unless all exchanges of r have begun.
func (s *Clients) next(r *stream) {
	if r.begun.Add(1) > r.n {
		return
	}
	for sent := false; !sent; {
		sent = s.all[(r.turn.Add(1)-1)%int64(len(s.all))].call()
	}
}

// isServed reports whether an answer has come since the last rush began.
func (m *routedClient) isServed() bool { return m.served.Load() }

// call sends a message. It returns false, and does nothing, if one is under way.
func (m *routedClient) call() bool {
	if !m.busy.CompareAndSwap(false, true) {
		return false
	}
	one := &routedMessage{from: m, began: time.Now()}
	h, err := m.node.Bind(portals.MD{Threshold: 2, Unlink: true, Handler: one})
	if err == nil {
		err = m.node.Put(h, m.to, node.PutOptions{Portal: portal, MatchBits: putBits, Ack: true})
	}
	if err != nil {
		one.end(err)
	}
	return true
}

// HandleEvent implements portals.Handler.
func (o *routedMessage) HandleEvent(e *portals.Event) {
	if e.Type == portals.EventAck || e.Err != nil {
		o.end(e.Err)
	}
}

// end ends the exchange, unless it has ended. If err is nil, the answer has come.
func (o *routedMessage) end(err error) {
	if o.ended.Swap(true) {
		return
	}
	m, s := o.from, o.from.of
	if err != nil {
		s.failed.Add(1)
		s.failure.Store(&err)
	} else {
		m.served.Store(true)
	}
	m.busy.Store(false)
	r := s.stream.Load()
	switch {
	case r == nil:
		return
	case err != nil:
		select {
		case r.failed <- err:
		default: // another one has failed before
		}
		return
	}
	if r.times != nil {
		r.times.Record(time.Since(o.began))
	}
	if r.ended.Add(1) == r.n {
		close(r.done)
		return
	}
	s.next(r)
}

// PrintRouted writes results as a table.
func PrintRouted(w io.Writer, results []*Routed) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "clients\tservers\tconnections\tKiB of each client\tidle: processor\tall served\thalf, all after\tµs of processor, messages of each client\tfailed messages")
	for _, r := range results {
		fmt.Fprintf(table, "%d\t%d\t%d\t%.1f\t%.2f %%\t\t\t\t\n", r.Clients, r.Servers, r.Connections, kib(r.Bytes), 100*r.IdleCPU)
		for _, one := range []struct {
			name string
			RoutedRush
		}{{"first", r.First}, {"after restart", r.Again}} {
			fmt.Fprintf(table, "\t\t\t\t\t%s\t%.1f s, %.1f s\t%.0f, %.1f\t%d\n", one.name, one.Half, one.All, one.CPU, one.Messages, one.Failed)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(table, "\nclients\t%d in flight: exchanges/s\tµs of processor, wake-ups of the router for each\t1 in flight: p50, p99 in µs\n", routedInFlight)
	for _, r := range results {
		fmt.Fprintf(table, "%d\t%.0f\t%.1f, %.2f\t%s\n", r.Clients, r.Rate, r.CPU, r.Wakeups, r.Alone)
	}
	return table.Flush()
}
