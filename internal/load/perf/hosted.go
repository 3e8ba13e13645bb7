package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote"
)

// hostedTest is a case of RunHosted: an exchange that is measured between clients of lnetd, from a node in the
// measuring process, and without LNet.
type hostedTest struct {
	test
	// far selects two clients of different lnetd processes. Otherwise both are clients of the same one.
	far bool
	// floor is the exchange without LNet that the result is compared with.
	floor floor
}

// floor is a fast exchange without LNet.
type floor uint8

const (
	floorSleeping floor = iota // two processes with eventfds and shared memory, which sleep
	floorPolling               // two processes with shared memory, which both poll
	floorCopying               // a memory copy
	floorTCP                   // plain TCP
)

// String returns the name of the floor in tables.
func (f floor) String() string { return []string{"eventfds", "spinning", "copy", "plain TCP"}[f] }

func hostedTests() []hostedTest {
	var ts []hostedTest
	add := func(far bool, f floor, t test) {
		t.machine, t.credits = true, highCredits
		where := "one lnetd"
		if far {
			where = "two lnetd"
		}
		t.name = where + ": " + t.name
		ts = append(ts, hostedTest{t, far, f})
	}
	message := func(far bool, f floor, name string, d tmhost.Delivery, goal float64) {
		add(far, f, test{name: "message 96 B and back, " + name, in: 96, out: 96, window: 1, delivery: d, goal: goal})
	}
	bulk := func(far bool, f floor, goal float64) {
		add(far, f, test{name: "bulk 1 MiB is fetched, 8 in flight", in: 1 << 20, window: 8, unit: gigabytes, goal: goal, atLeast: true})
		add(far, f, test{name: "bulk 1 MiB is brought, 8 in flight", out: 1 << 20, window: 8, unit: gigabytes, goal: goal, atLeast: true})
	}
	message(false, floorSleeping, "notified", tmhost.Sync, 2.5)
	message(false, floorSleeping, "asynchronous", tmhost.Async, 2.5)
	message(false, floorSleeping, "polling", tmhost.Poll, 1)
	message(false, floorPolling, "polling", tmhost.Poll, 0)
	load := func(far bool, f floor, name string, d tmhost.Delivery) {
		add(far, f, test{name: "message 96 B and back, 64 in flight, " + name, in: 96, out: 96, window: 64, delivery: d, unit: perSecond})
	}
	load(false, floorSleeping, "asynchronous", tmhost.Async)
	load(false, floorSleeping, "polling", tmhost.Poll)
	bulk(false, floorCopying, 0.7)
	message(true, floorTCP, "notified", tmhost.Sync, 2.6)
	message(true, floorTCP, "asynchronous", tmhost.Async, 2.6)
	message(true, floorTCP, "polling", tmhost.Poll, 1.6)
	load(true, floorTCP, "asynchronous", tmhost.Async)
	load(true, floorTCP, "polling", tmhost.Poll)
	bulk(true, floorTCP, 0.9)
	return ts
}

// hostedKey identifies a sender of RunHosted: whether it uses the node in this process instead of lnetd,
// whether its peer is a client of the other lnetd, and how its events are delivered.
type hostedKey struct {
	inside, far bool
	delivery    tmhost.Delivery
}

// hostedBench is the state of the process that measures exchanges between clients of lnetd (RunHosted).
type hostedBench struct {
	config    HostConfig
	guest     *guest
	localNode *lnetNode // a node for transfer machines that do not use lnetd
	senders   map[hostedKey]*sender
	tcp       *floorClient
	plain     *plain
	from      [tmBulks]*shared.Memory // shared memory, as clients of lnetd use it
	to        [tmBulks]*shared.Memory
}

// RunHosted measures programs whose transfer machines run in lnetd, and returns the results. Two processes must be running ServeHost
// and one ServeGuest for the far end. RunHosted calls start with files; start must start the process
// that runs ServeGuest for the near end with these files. It calls done with each result.
func RunHosted(ctx context.Context, c HostConfig, start func(PlainFiles) error, done func(*HostedResult)) (list []*HostedResult, err error) {
	h := &hostedBench{config: c, senders: make(map[hostedKey]*sender)}
	var files PlainFiles
	if h.plain, files, err = newPlain(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.plain.close()) }()
	if err := start(files); err != nil {
		return nil, err
	}
	if err := h.makeMemory(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.freeMemory()) }()
	if h.tcp, err = dialFloor(ctx, netip.AddrPortFrom(c.Server, uint16(c.Port+1)).String()); err != nil {
		return nil, err
	}
	defer func() { _ = h.tcp.conn.Close() }()
	address := c.Client.Next().Next()
	if h.localNode, err = startNode(ctx, &c.Config, address, highCredits); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.localNode.close()) }()
	h.guest = newGuest(&c, false)
	defer func() { err = errors.Join(err, h.guest.close()) }()
	if err := h.localNode.startEchoes(ctx, tmEchoes, deliveries...); err != nil {
		return nil, err
	}
	if err := h.makeSenders(ctx); err != nil {
		return nil, err
	}
	for _, t := range hostedTests() {
		if c.Only != nil && !c.Only.MatchString(t.name) {
			continue
		}
		if t.delivery == tmhost.Poll && runtime.GOMAXPROCS(0) == 1 {
			continue // two ends can poll at the same time only on two processors
		}
		r, err := h.measure(ctx, &t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		done(r)
		list = append(list, r)
	}
	return list, nil
}

// makeMemory creates the memory that floorCopying copies.
func (h *hostedBench) makeMemory() error {
	for _, all := range []*[tmBulks]*shared.Memory{&h.from, &h.to} {
		for k := range all {
			m, fd, err := shared.Create("copied", offeredSize)
			if err != nil {
				return errors.Join(err, h.freeMemory())
			}
			all[k] = m
			if err := unix.Close(fd); err != nil {
				return errors.Join(err, h.freeMemory())
			}
			writePages(m.Bytes())
		}
	}
	return nil
}

func (h *hostedBench) freeMemory() (err error) {
	for k := range h.from {
		for _, m := range []*shared.Memory{h.from[k], h.to[k]} {
			if m != nil {
				err = errors.Join(err, m.Close())
			}
		}
	}
	return err
}

// makeSenders starts a sender for each hostedKey.
func (h *hostedBench) makeSenders(ctx context.Context) error {
	net := lnet.MakeNet(lnet.TypeTCP, 0)
	near, far := lnet.NIDFromIP(net, h.config.Client), lnet.NIDFromIP(net, h.config.Server)
	for _, d := range deliveries {
		for _, way := range []struct {
			inside, far bool
			from        *tmSite
			to          lnet.NID
			first       int
		}{
			{false, false, h.guest.siteFor(d), near, guestEchoes},
			{false, true, h.guest.siteFor(d), far, guestEchoes},
			{true, false, &h.localNode.tmSite, h.localNode.nid, tmEchoes},
			{true, true, &h.localNode.tmSite, far, tmEchoes},
		} {
			s, err := way.from.newSender(ctx, d, way.to, way.first)
			if err != nil {
				return err
			}
			h.senders[hostedKey{way.inside, way.far, d}] = s
		}
	}
	return nil
}

// hostedMethod is a way to make the exchanges of a hostedTest, with its results: through lnetd, through a node in
// this process, or without LNet.
type hostedMethod struct {
	run     func(n int) (time.Duration, error)
	n       int
	figures []float64
}

// measure measures one case. Its rounds alternate between the methods.
func (h *hostedBench) measure(ctx context.Context, t *hostedTest) (*HostedResult, error) {
	through := func(inside bool) func(n int) (time.Duration, error) {
		s := h.senders[hostedKey{inside, t.far, t.delivery}]
		return func(n int) (time.Duration, error) {
			return s.run(ctx, exchange{n: n, in: t.in, out: t.out, window: t.window})
		}
	}
	core := h.guest.cores[0]
	if t.delivery == tmhost.Poll {
		core = h.guest.cores[1]
	}
	ours := &hostedMethod{}
	var spent costs
	var done int
	ours.run = func(n int) (time.Duration, error) {
		before := costsOf(core)
		took, err := through(false)(n)
		spent.add(costsOf(core), before)
		done += n
		return took, err
	}
	ways := []*hostedMethod{ours, {run: through(true)}, {run: h.floorOf(t)}}
	for _, l := range ways {
		const first = 64
		took, err := l.run(first)
		if err != nil {
			return nil, err
		}
		l.n = max(first, int(h.config.Time/max(took/first, 1)))
		l.n -= l.n % t.window
	}
	spent, done = costs{}, 0
	var ratios, inside []float64
	for range h.config.Rounds {
		var now []float64
		for _, l := range ways {
			took, err := l.run(l.n)
			if err != nil {
				return nil, err
			}
			now = append(now, t.figure(took, l.n))
			l.figures = append(l.figures, now[len(now)-1])
		}
		ratios, inside = append(ratios, now[0]/now[2]), append(inside, now[0]/now[1])
	}
	return &HostedResult{
		Case: t.name, In: t.in, Out: t.out, InFlight: t.window, Unit: t.unit.String(), Goal: t.goal, AtLeast: t.atLeast,
		LNet: spreadOf(ways[0].figures), Inproc: spreadOf(ways[1].figures), Plain: spreadOf(ways[2].figures), PlainIs: t.floor.String(),
		Ratio: spreadOf(ratios), OfInproc: spreadOf(inside),
		Bells: float64(spent.bells) / float64(done), Allocs: float64(spent.allocations) / float64(done), test: t,
	}, nil
}

// floorOf returns the function that makes n exchanges of a case without LNet.
func (h *hostedBench) floorOf(t *hostedTest) func(n int) (time.Duration, error) {
	switch t.floor {
	case floorSleeping:
		return h.plain.exchange
	case floorPolling:
		return h.plain.spin
	case floorCopying:
		return func(n int) (time.Duration, error) {
			start := time.Now()
			for k := range n {
				copy(h.to[k%tmBulks].Bytes(), h.from[k%tmBulks].Bytes())
			}
			return time.Since(start), nil
		}
	}
	return func(n int) (time.Duration, error) { return h.tcp.exchange(n, t.in, t.out, t.window) }
}

// costs are costs of the active process: reads and writes of the bells, which are eventfds between a
// client and lnetd, and allocations on Go's heap.
type costs struct{ bells, allocations uint64 }

func costsOf(c *remote.Core) costs {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := c.Stats()
	return costs{s.BellWrites + s.BellReads, m.Mallocs}
}

// add adds the difference between now and before.
func (c *costs) add(now, before costs) {
	c.bells += now.bells - before.bells
	c.allocations += now.allocations - before.allocations
}
