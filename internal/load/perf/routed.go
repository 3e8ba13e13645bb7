package perf

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Parameters of a measurement with a router.
const (
	routedInFlight = 64                     // exchanges in flight of all clients together
	routedTime     = 3 * time.Second        // approximate length of the measurement with routedInFlight
	probeTime      = 500 * time.Millisecond // approximate length of the measurement with one exchange in flight
	// failedPause is the minimum time after which a client sends a message again that has failed, and half of the
	// maximum. Many programs pause for longer. Without a pause, the clients would use most of the processors.
	failedPause = 250 * time.Millisecond
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
	// Bytes is the memory of Go in the router's process for each client, with its connections, and with a share of
	// those to the servers.
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

// Clients is a group of clients that reach servers through a router.
type Clients struct {
	group   *nodeGroup
	servers int
	all     []*routedClient
	none    int // bytes of the router's memory without clients
	failed  atomic.Int64
	failure atomic.Pointer[error]  // of the message that failed last
	stream  atomic.Pointer[stream] // nil while no stream runs
}

// routedClient is a client that sends one message at a time, to the same server.
type routedClient struct {
	of     *Clients
	node   *node.Node
	to     lnet.ProcessID
	busy   atomic.Bool // a message is under way, or has failed a moment ago
	served atomic.Bool // an answer has come since the last rush began
}

// routedMessage is an exchange of a client. It implements portals.Handler.
type routedMessage struct {
	from  *routedClient
	began time.Time
	ended atomic.Bool
}

// NewClients starts n clients of the given number of servers, whose router is the process c.Passive. The clients check
// the router at once, but send no other messages before First. The caller must call Close.
func NewClients(ctx context.Context, c Config, n, servers int) (_ *Clients, err error) {
	s := &Clients{servers: servers}
	if s.none, err = c.Passive.memoryInUse(); err != nil { // before the clients connect, for which they do not wait for First
		return nil, err
	}
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
func (s *Clients) First(ctx context.Context, passive *Process, r *Routed) (err error) {
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
	r.Bytes = (all - s.none) / len(s.all)
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

// isServed reports whether an answer has come since the last rush began.
func (m *routedClient) isServed() bool { return m.served.Load() }

// call sends a message. It returns false, and does nothing, if one is under way or has failed a moment ago.
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
	r := s.stream.Load()
	if r == nil && err != nil {
		time.AfterFunc(failedPause+rand.N(failedPause), func() { m.busy.Store(false) })
		return
	}
	m.busy.Store(false)
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
