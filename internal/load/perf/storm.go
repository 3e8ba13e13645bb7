package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Parameters of a storm.
const (
	// stormLimit is the time after which a storm has failed.
	stormLimit = 2 * time.Minute
	// stormPause is how long a peer waits until it sends a message again that has failed.
	stormPause = 100 * time.Millisecond
	// calmTime is how long messages are timed without a storm.
	calmTime = 2 * time.Second
	// openTime is how long no connection must be opened until a storm counts as over.
	openTime = 300 * time.Millisecond
	// idleTime is how long the node is watched while nothing happens.
	idleTime = 5 * time.Second
)

// Storm is the result of Storms.Run: many peers connect to a node at the same time, and again after it has
// restarted.
type Storm struct {
	Peers       int `json:"peers"`
	Connections int `json:"connections"`
	// Bytes is the memory of Go in the node's process for each idle connection.
	Bytes int `json:"connection_bytes"`
	// IdleCPU is the share of a processor that the node uses while nothing happens, and IdleWakeups the number
	// of its wake-ups per second.
	IdleCPU     float64 `json:"idle_cpu"`
	IdleWakeups float64 `json:"idle_wakeups_per_s"`
	// First is the storm in which the peers connect for the first time, and Again the one after the restart.
	First Rush `json:"first"`
	Again Rush `json:"again"`
	// Calm is the time of a message and its answer without a storm, from peers that are connected.
	Calm Percentiles `json:"calm"`
	// CalmEcho is what Rush.Echo is during a storm.
	CalmEcho Percentiles `json:"calm_echo"`
}

// Rush is one storm.
type Rush struct {
	// Half and All are the times in seconds from the moment at which the node was ready until half of the peers,
	// and all of them, had the answer to a message. Open is the time until they had all their connections.
	Half float64 `json:"half_s"`
	All  float64 `json:"all_s"`
	Open float64 `json:"open_s"`
	// CPU is the node's processor time in microseconds for each connection.
	CPU float64 `json:"cpu_us"`
	// Connected is the time of a message and its answer during the storm, from peers that are connected.
	Connected Percentiles `json:"connected"`
	// Echo is the same of plain TCP messages between two idle processes, so it shows how long the machine made
	// processes wait.
	Echo Percentiles `json:"echo"`
}

// Percentiles are percentiles of times in microseconds. N is the number of times.
type Percentiles struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	N   uint64  `json:"n"`
}

// Storms is a group of peers that connect to a node at the same time.
type Storms struct {
	driver  *socklnd.Driver
	callers []*caller
}

// caller is a peer of the node that sends one message at a time.
type caller struct {
	bystander
	iface lnd.Interface
	to    lnet.ProcessID
	// answered is called when an answer has come, with the time since the message was sent. again reports whether
	// another answer has come since the peer last lost connections.
	answered func(took time.Duration, again bool)

	mu     sync.Mutex // guards the fields below
	tx     lnd.Tx
	began  time.Time
	number uint64 // of the message
	sent   bool   // the driver no longer has the message
	over   bool   // the answer has come, or will not come
	again  bool   // an answer has come since connections were last lost
	served bool   // an answer has come since reset
}

// openCaller opens the NI of a peer with the given address. answered is called for each answer.
func openCaller(ctx context.Context, d *socklnd.Driver, at, to netip.Addr, answered func(time.Duration, bool)) (m *caller, err error) {
	m = &caller{to: lnet.ProcessID{NID: lnet.NIDFromIP(tcp, to), PID: lnet.PIDLustre}, answered: answered, sent: true, over: true}
	m.tx.Done, m.tx.To = m, m.to
	m.iface, err = d.Open(ctx, lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, at), Upper: m})
	return m, err
}

// NewStorms opens the NIs of the peers. They do not connect before Run. The caller must call Close.
func NewStorms(ctx context.Context, c Config, peers int) (*Storms, error) {
	d, err := newStaticDriver(&c)
	if err != nil {
		return nil, err
	}
	s := &Storms{driver: d}
	for k := range peers {
		m, err := openCaller(ctx, d, memberAddress(k), c.Server, func(time.Duration, bool) {})
		if err != nil {
			return nil, errors.Join(err, s.Close(ctx))
		}
		s.callers = append(s.callers, m)
	}
	return s, nil
}

// Close closes the peers.
func (s *Storms) Close(ctx context.Context) (err error) {
	for _, m := range s.callers {
		err = errors.Join(err, m.iface.Close(ctx))
	}
	return errors.Join(err, s.driver.Close())
}

// First makes the peers connect to the node of the process passive, and measures the node while nothing
// happens. probes is a process that runs ServeProbes. It sets all results except r.Again.
func (s *Storms) First(ctx context.Context, passive, probes *Process, r *Storm) error {
	none, err := passive.memoryInUse()
	if err != nil {
		return err
	}
	r.Peers = len(s.callers)
	if r.First, err = s.rush(ctx, passive, probes); err != nil {
		return err
	}
	r.Connections = s.connections()
	calm, err := costsWithin(ctx, probes, calmTime)
	if err != nil {
		return err
	}
	r.Calm, r.CalmEcho = percentilesOf(calm, ""), percentilesOf(calm, echoPrefix)
	idle, err := costsWithin(ctx, passive, idleTime)
	if err != nil {
		return err
	}
	r.IdleCPU, r.IdleWakeups = idle[CPU]/float64(idleTime.Microseconds()), idle[Wakeups]/idleTime.Seconds()
	all, err := passive.memoryInUse()
	r.Bytes = (all - none) / max(1, r.Connections)
	return err
}

// Again makes the peers connect to the node of the process passive, which has replaced the former node.
func (s *Storms) Again(ctx context.Context, passive, probes *Process, r *Storm) (err error) {
	r.Again, err = s.rush(ctx, passive, probes)
	return err
}

// costsWithin returns the costs of a process within the time d.
func costsWithin(ctx context.Context, p *Process, d time.Duration) (Cost, error) {
	if err := p.beginCosts(false); err != nil {
		return nil, err
	}
	if err := sleep(ctx, d); err != nil {
		return nil, err
	}
	return p.endCosts()
}

// rush makes all peers send a message, which they repeat until an answer comes, and waits until all have had an
// answer and have opened all their connections.
func (s *Storms) rush(ctx context.Context, passive, probes *Process) (r Rush, err error) {
	if err := errors.Join(passive.beginCosts(false), probes.beginCosts(false)); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stormLimit, fmt.Errorf("not all peers are served after %v", stormLimit))
	defer cancel()
	for _, m := range s.callers {
		m.reset()
	}
	began := time.Now()
	r.All, err = serveAll(ctx, s.callers, began, &r.Half)
	if err != nil {
		return r, err
	}
	if r.Open, err = s.awaitConnections(ctx, began); err != nil {
		return r, err
	}
	cost, err := passive.endCosts()
	if err != nil {
		return r, err
	}
	r.CPU = cost[CPU] / float64(max(1, s.connections()))
	cost, err = probes.endCosts()
	r.Connected, r.Echo = percentilesOf(cost, ""), percentilesOf(cost, echoPrefix)
	return r, err
}

// stormPeer is a peer that sends one message at a time.
type stormPeer interface {
	// isServed reports whether an answer has come since the storm began.
	isServed() bool
	// call sends a message. It returns false, and does nothing, if one is under way.
	call() bool
}

// serveAll makes the peers send messages until all have had an answer. It returns the time since began, and sets half
// to the time at which half of them had one.
func serveAll[S stormPeer](ctx context.Context, peers []S, began time.Time, half *float64) (float64, error) {
	tick := time.NewTicker(stormPause)
	defer tick.Stop()
	for {
		n := 0
		for _, m := range peers {
			if m.isServed() {
				n++
			} else {
				m.call()
			}
		}
		if *half == 0 && 2*n >= len(peers) {
			*half = time.Since(began).Seconds()
		}
		if n == len(peers) {
			return time.Since(began).Seconds(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %d of %d", context.Cause(ctx), n, len(peers))
		}
	}
}

// awaitConnections waits until no connection has been opened for openTime. It returns the time from began until the
// last one was opened.
func (s *Storms) awaitConnections(ctx context.Context, began time.Time) (float64, error) {
	n, last := 0, time.Now()
	for time.Since(last) < openTime {
		if now := s.connections(); now != n {
			n, last = now, time.Now()
		}
		if err := sleep(ctx, stormPause/4); err != nil {
			return 0, err
		}
	}
	return last.Sub(began).Seconds(), nil
}

// connections returns the number of connections of all peers.
func (s *Storms) connections() (n int) {
	for _, m := range s.callers {
		n += connectionsOf(m.iface)
	}
	return n
}

// percentilesOf returns the percentiles that a process with ServeProbes has counted, whose names begin with prefix.
func percentilesOf(c Cost, prefix string) Percentiles {
	return Percentiles{P50: c[prefix+probeP50], P99: c[prefix+probeP99], N: uint64(c[prefix+probeCount])}
}

// reset makes served return false until the next answer comes.
func (m *caller) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served = false
}

// isServed reports whether an answer has come since reset.
func (m *caller) isServed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.served
}

// call sends a message. It returns false, and does nothing, if one is under way.
func (m *caller) call() bool {
	m.mu.Lock()
	if !m.sent || !m.over {
		m.mu.Unlock()
		return false
	}
	m.number++
	m.sent, m.over, m.began = false, false, time.Now()
	m.tx.Header = lnet.Header{
		Type: lnet.MsgPut, Src: m.iface.NID(), Dest: m.to.NID, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		Portal: portal, MatchBits: putBits, Handle: lnet.Handle{Object: m.number},
	}
	m.mu.Unlock()
	m.iface.Send(&m.tx)
	return true
}

// Sent implements lnd.Sender.
func (m *caller) Sent(_ *lnd.Tx, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = true
	m.over = m.over || err != nil
}

// Arrived implements lnd.Upper.
func (m *caller) Arrived(rx *lnd.Rx) error {
	typ, number := rx.Header.Type, rx.Header.Handle.Object
	m.iface.Receive(rx, lnd.Placement{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if typ == lnet.MsgAck && !m.over && number == m.number {
		m.answered(time.Since(m.began), m.again)
		m.over, m.again, m.served = true, true, true
	}
	return nil
}

// ConnectionsLost implements lnd.Upper.
func (m *caller) ConnectionsLost(lnet.NID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over, m.again = true, false
}

// PeerDown implements lnd.Upper.
func (m *caller) PeerDown(lnd.PeerDown) { m.ConnectionsLost(m.to.NID) }

// PrintStorms writes results as a table.
func PrintStorms(w io.Writer, results []*Storm) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "peers\tconnections\tKiB of each\tidle: processor, wake-ups/s\tstorm\thalf, all served, all connected after\tµs of processor of each\tmessages of connected peers: p50, p99 in µs\tof idle processes")
	for _, r := range results {
		fmt.Fprintf(table, "%d\t%d\t%.1f\t%.2f %%, %.0f\t\t\t\t%s\t%s\n", r.Peers, r.Connections, kib(r.Bytes), 100*r.IdleCPU, r.IdleWakeups, r.Calm, r.CalmEcho)
		for _, one := range []struct {
			name string
			Rush
		}{{"first", r.First}, {"after restart", r.Again}} {
			fmt.Fprintf(table, "\t\t\t\t%s\t%.1f s, %.1f s, %.1f s\t%.0f\t%s\t%s\n", one.name, one.Half, one.All, one.Open, one.CPU, one.Connected, one.Echo)
		}
	}
	return table.Flush()
}

func (p Percentiles) String() string { return fmt.Sprintf("%.0f, %.0f", p.P50, p.P99) }
