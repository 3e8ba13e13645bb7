package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// Parameters of a measurement with many peers.
const (
	crowdSize     = 96 // bytes of a PUT
	crowdInFlight = 64 // exchanges in flight of all peers together
	// burstSize is the number of exchanges that each peer has in flight in the burst, after which memory is
	// measured. releaseTime is longer than the node takes to release the memory of the burst.
	burstSize   = 64
	releaseTime = 3 * time.Second
)

// MaxCrowd is the maximum number of peers in RunCrowd, limited by the number of addresses.
const MaxCrowd = 60_000

// Crowd is the result of RunCrowd: exchanges of a node with many peers, compared with exchanges with one
// peer and over plain TCP.
type Crowd struct {
	Peers       int `json:"peers"`
	Connections int `json:"connections"`
	// Ways are the ways to make the exchanges: with one peer and with all peers, through lnetd and over
	// plain TCP. Figure is exchanges per second. The costs are those of the node or of the plain server.
	Ways []CrowdWay `json:"ways"`
	// Spread is the node's CPU time with all peers divided by its CPU time with one peer, for each round.
	// OfFloor is the node's CPU time with all peers divided by the CPU time of the plain server with as
	// many connections.
	Spread  Spread `json:"spread"`
	OfFloor Spread `json:"of_floor"`
	// Rest, Burst and AfterBurst are bytes of Go's memory per connection: with idle connections, right
	// after each peer had burstSize messages in flight, and releaseTime later. With few connections they
	// may be negative, because the process may have released other memory since the start.
	Rest       int `json:"rest_bytes"`
	Burst      int `json:"burst_bytes"`
	AfterBurst int `json:"calm_bytes"`
}

// CrowdWay is one way to make the exchanges of RunCrowd (with one peer or with all, through lnetd or
// over plain TCP) and its results.
type CrowdWay struct {
	By    Method `json:"by"`
	Peers int    `json:"peers"`
	*Measured

	run    func(ctx context.Context, n int) (time.Duration, error)
	rounds rounds
	cpu    float64 // CPU time per exchange in the last round
}

// RunCrowd measures a node that receives small messages from many peers. The node belongs to Serve in
// the process c.Passive, which must be set. RunCrowd takes ten seconds plus the time of the rounds.
func RunCrowd(ctx context.Context, c Config, peers int) (_ *Crowd, err error) {
	if c.Passive == nil {
		return nil, errors.New("a measurement with many peers needs the node in another process")
	}
	none, err := c.Passive.memoryInUse()
	if err != nil {
		return nil, err
	}
	w, err := newPeerGroup(ctx, &c, peers, crowdSize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if _, err := w.run(ctx, 4*peers, min(crowdInFlight, peers), peers); err != nil {
		return nil, fmt.Errorf("first messages of all peers: %w", err)
	}
	r := &Crowd{Peers: peers, Connections: w.connections()}
	weigh := func(into *int) error {
		all, err := c.Passive.memoryInUse()
		*into = (all - none) / max(1, r.Connections)
		return err
	}
	if err := errors.Join(sleep(ctx, releaseTime), weigh(&r.Rest)); err != nil {
		return nil, err
	}
	if _, err := w.run(ctx, burstSize*peers, burstSize*peers, peers); err != nil {
		return nil, fmt.Errorf("burst of messages of all peers: %w", err)
	}
	if err := errors.Join(weigh(&r.Burst), sleep(ctx, releaseTime), weigh(&r.AfterBurst)); err != nil {
		return nil, err
	}
	floors, err := dialFloors(ctx, c.plainAddress(), peers)
	if err != nil {
		return nil, err
	}
	defer floors.close()
	r.Ways = []CrowdWay{
		{By: MethodLNet, Peers: 1, run: func(ctx context.Context, n int) (time.Duration, error) { return w.run(ctx, n, crowdInFlight, 1) }},
		{By: MethodFloor, Peers: 1, run: func(_ context.Context, n int) (time.Duration, error) {
			return floors[0].exchange(n, crowdSize, 0, crowdInFlight, nil)
		}},
		{By: MethodLNet, Peers: peers, run: func(ctx context.Context, n int) (time.Duration, error) { return w.run(ctx, n, crowdInFlight, peers) }},
		{By: MethodFloor, Peers: peers, run: func(_ context.Context, n int) (time.Duration, error) { return floors.exchange(n) }},
	}
	return r, r.measure(ctx, &c)
}

// measure runs the rounds, which alternate between the ways, and sets the results.
func (r *Crowd) measure(ctx context.Context, c *Config) error {
	const first = 16 * crowdInFlight // exchanges in the first round, which determines the number of exchanges in the others
	for k := range r.Ways {
		way := &r.Ways[k]
		took, err := way.run(ctx, first)
		if err != nil {
			return fmt.Errorf("%s with %d peers: %w", way.By, way.Peers, err)
		}
		way.rounds.n = c.exchanges(first, took)
	}
	one, all, floor := &r.Ways[0], &r.Ways[2], &r.Ways[3]
	var spread, ofFloor []float64
	for k := range c.Rounds + countedRounds {
		counted := k >= c.Rounds
		for j := range r.Ways {
			if err := r.Ways[j].round(ctx, c.Passive, counted); err != nil {
				return fmt.Errorf("%s with %d peers: %w", r.Ways[j].By, r.Ways[j].Peers, err)
			}
		}
		if !counted {
			spread = append(spread, all.cpu/max(one.cpu, 1e-3))
			ofFloor = append(ofFloor, all.cpu/max(floor.cpu, 1e-3))
		}
	}
	for k := range r.Ways {
		r.Ways[k].Measured = r.Ways[k].rounds.measured()
	}
	r.Spread, r.OfFloor = spreadOf(spread), spreadOf(ofFloor)
	return nil
}

// round runs one round of a way and adds its result. If counted is set, the round only counts system
// calls.
func (w *CrowdWay) round(ctx context.Context, passive *Process, counted bool) error {
	if err := passive.beginCosts(counted); err != nil {
		return err
	}
	took, err := w.run(ctx, w.rounds.n)
	if err != nil {
		return err
	}
	cost, err := passive.endCosts()
	if err != nil {
		return err
	}
	round := Round{Took: took, Answers: cost.each(w.rounds.n, nil)}
	if counted {
		w.rounds.costs(&round)
		return nil
	}
	w.cpu = round.Answers[CPU]
	w.rounds.add(&test{unit: perSecond}, &round)
	return nil
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// floors are connections to the plain server.
type floors []*floorClient

func dialFloors(ctx context.Context, address string, n int) (all floors, err error) {
	for range n {
		f, err := dialFloor(ctx, address)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func (all floors) close() {
	for _, f := range all {
		_ = f.conn.Close()
	}
}

// exchange makes n exchanges, by the connections in turn, with crowdInFlight exchanges in flight. It
// returns the time taken.
func (all floors) exchange(n int) (time.Duration, error) {
	var turn atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, crowdInFlight)
	busy := make([]sync.Mutex, len(all))
	start := time.Now()
	for k := range errs {
		wg.Go(func() {
			message := floorMessage(crowdSize, 0)
			answer := make([]byte, headSize)
			for errs[k] == nil {
				mine := int(turn.Add(1) - 1)
				if mine >= n {
					return
				}
				mine %= len(all)
				busy[mine].Lock()
				errs[k] = all[mine].once(message, answer)
				busy[mine].Unlock()
			}
		})
	}
	wg.Wait()
	return time.Since(start), errors.Join(errs...)
}

// Print writes the results of the crowd.
func (r *Crowd) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%d B and answer, %d in flight\tby\texchanges/s\twho answers:", crowdSize, crowdInFlight)
	for _, c := range costColumns {
		fmt.Fprintf(table, " %s\t", c.title)
	}
	fmt.Fprintln(table)
	for k := range r.Ways {
		way := &r.Ways[k]
		name := "one peer"
		if way.Peers > 1 {
			name = fmt.Sprintf("%d peers in turn", way.Peers)
		}
		fmt.Fprintf(table, "%s\t%s\t%.0f\t", name, way.By, way.Figure.Median)
		for _, c := range costColumns {
			fmt.Fprintf(table, "%s\t", costText(way.Answers, c.name, c.format))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
processor's time with all peers: %.2f of that with one (%s), %.2f of the floor's (%s)
memory of a connection, of %d: %.1f KiB at rest, %.1f KiB after %d messages at once from each peer, %.1f KiB %v later
`, r.Spread.Median, quartiles(r.Spread), r.OfFloor.Median, quartiles(r.OfFloor),
		r.Connections, kib(r.Rest), kib(r.Burst), burstSize, kib(r.AfterBurst), releaseTime)
	return err
}

func kib(bytes int) float64 { return float64(bytes) / 1024 }
