package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/lnetd/lnetd/internal/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/message"
)

// Config says where and how long to measure.
type Config struct {
	// Server and Client are the addresses of the two nodes: of the host, and
	// different.
	Server, Client netip.Addr
	// Port is where the nodes listen; Port+1 is the plain server's.
	Port int
	// Rounds is the number of times that each case is measured, Time how long
	// a round of a case takes, roughly. Many short rounds, ours and plain TCP's
	// in turn, make ratios that hold on a noisy machine.
	Rounds int
	Time   time.Duration
	// Only, if not nil, chooses the cases to measure by name.
	Only *regexp.Regexp
	// Logger receives the nodes' logs; nil discards.
	Logger *slog.Logger
}

// DefaultConfig measures on loopback in about two and a half minutes.
func DefaultConfig() Config {
	return Config{
		Server: netip.AddrFrom4([4]byte{127, 0, 0, 3}),
		Client: netip.AddrFrom4([4]byte{127, 0, 0, 2}),
		Port:   9988,
		Rounds: 21,
		Time:   150 * time.Millisecond,
	}
}

// highCredits are the peer credits of the cases with 64 messages in flight.
const highCredits = 64

// Serve runs the passive side until ctx ends. ready is called when it listens.
func Serve(ctx context.Context, c Config, ready func()) error {
	o, err := startNode(ctx, c.Server, c.Port, highCredits, c.Logger)
	if err != nil {
		return err
	}
	if err = o.attach(); err == nil {
		err = o.startEchoes(ctx, tmEchoes, deliveries...)
	}
	var a *selftest.Agent
	if err == nil {
		a, err = selftest.Enable(o.node, selftest.Config{Logger: c.Logger})
	}
	if err == nil {
		err = serveFloor(ctx, c, ready)
		last, cancel := context.WithTimeout(context.Background(), setupTime)
		defer cancel()
		err = errors.Join(err, a.Close(last))
	}
	return errors.Join(err, o.close())
}

func serveFloor(ctx context.Context, c Config, ready func()) error {
	l, err := net.Listen("tcp", netip.AddrPortFrom(c.Server, uint16(c.Port+1)).String())
	if err != nil {
		return err
	}
	ready()
	return floorServer(ctx, l)
}

// test is a case to be measured both ways.
type test struct {
	name     string
	in, out  int
	window   int
	blocking bool
	selftest bool // RPCs of LNet selftest: a ping, or a BRW of in or out bytes
	// machine is a pair of transfer machines; a message comes back as it is.
	machine  bool
	delivery tmhost.Delivery
	credits  int
	unit     unit
	goal     float64
	atLeast  bool // the goal is a lower bound
}

// unit says how a time per transfer is shown.
type unit uint8

const (
	microseconds unit = iota
	gigabytes
	perSecond
)

func tests() []test {
	var ts []test
	for _, size := range []int{0, 96, 4096} {
		ts = append(ts,
			test{name: fmt.Sprintf("PUT+ACK %d B, handler sends the next", size), in: size, window: 1, credits: 8, goal: 1.3},
			test{name: fmt.Sprintf("PUT+ACK %d B, caller blocks", size), in: size, window: 1, credits: 8, blocking: true, goal: 1.8})
	}
	ts = append(ts,
		test{name: "PUT 1 MiB, 8 in flight", in: 1 << 20, window: 8, credits: 8, unit: gigabytes, goal: 0.95, atLeast: true},
		test{name: "GET 1 MiB, 8 in flight", out: 1 << 20, window: 8, credits: 8, unit: gigabytes, goal: 0.95, atLeast: true},
		test{name: "PUT 96 B, 64 in flight, peer_credits 64", in: 96, window: 64, credits: highCredits, unit: perSecond, goal: 3, atLeast: true},
		test{name: "PUT 96 B, 64 in flight, peer_credits 8", in: 96, window: 64, credits: 8, unit: perSecond})

	tm := func(t test) {
		t.machine, t.credits = true, highCredits
		if t.window == 1 {
			t.credits = 8
		}
		ts = append(ts, t)
	}
	for _, d := range []struct {
		delivery tmhost.Delivery
		text     string
		goal     float64
	}{{tmhost.Poll, "polling", 1.6}, {tmhost.Sync, "notified", 0}, {tmhost.Async, "asynchronous", 2.2}} {
		tm(test{name: "TM message 96 B and back, " + d.text, in: 96, out: 96, window: 1, delivery: d.delivery, goal: d.goal})
		if d.delivery != tmhost.Sync {
			tm(test{name: "TM message 96 B and back, 64 in flight, " + d.text, in: 96, out: 96, window: 64, delivery: d.delivery,
				unit: perSecond, goal: 2.5, atLeast: true})
		}
	}
	tm(test{name: "TM bulk 1 MiB is fetched, 8 in flight", in: 1 << 20, window: 8, unit: gigabytes, goal: 0.9, atLeast: true})
	tm(test{name: "TM bulk 1 MiB is brought, 8 in flight", out: 1 << 20, window: 8, unit: gigabytes, goal: 0.9, atLeast: true})

	lst := func(t test) {
		t.selftest = true
		ts = append(ts, t)
	}
	lst(test{name: "lst ping, concurrency 1", window: 1, credits: 8, goal: 1.3})
	lst(test{name: "lst ping, concurrency 64, peer_credits 64", window: 64, credits: highCredits, unit: perSecond, goal: 3, atLeast: true})
	lst(test{name: "lst ping, concurrency 64, peer_credits 8", window: 64, credits: 8, unit: perSecond})
	for _, name := range []string{"write", "read"} {
		size := func(n int) test {
			if name == "write" {
				return test{in: n}
			}
			return test{out: n}
		}
		large, small := size(1<<20), size(4096)
		large.name, large.window, large.credits, large.unit = "lst brw "+name+" 1 MiB, concurrency 8", 8, 8, gigabytes
		large.goal, large.atLeast = 0.9, true
		small.name, small.window, small.credits, small.unit = "lst brw "+name+" 4 KiB, concurrency 8", 8, 8, perSecond
		lst(large)
		lst(small)
	}
	return ts
}

// Run measures every case against a Serve in another process and writes a
// table to w.
func Run(ctx context.Context, c Config, w io.Writer) error {
	server := lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), c.Server)
	clients, testers := make(map[int]*ours), make(map[int]*tester)
	senders := make(map[senderKey]*sender)
	for _, credits := range []int{8, highCredits} {
		// Two nodes with their own addresses, so that each has its own
		// connections and credits.
		address := c.Client
		if credits == highCredits {
			address = address.Next().Next()
		}
		o, err := startNode(ctx, address, c.Port, credits, c.Logger)
		if err != nil {
			return err
		}
		defer func() { _ = o.close() }()
		clients[credits] = o
		t, err := o.newTester()
		if err != nil {
			return err
		}
		defer func() { _ = t.close() }()
		testers[credits] = t
		for _, delivery := range deliveries {
			s, err := o.newSender(ctx, delivery, server, tmEchoes)
			if err != nil {
				return err
			}
			senders[senderKey{credits, delivery}] = s
		}
	}
	floor, err := dialFloor(ctx, netip.AddrPortFrom(c.Server, uint16(c.Port+1)).String())
	if err != nil {
		return err
	}
	defer func() { _ = floor.conn.Close() }()

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "exchange\tlnetd\tplain TCP\tratio\tgoal\n")
	for _, t := range tests() {
		if c.Only != nil && !c.Only.MatchString(t.name) {
			continue
		}
		run := func(x exchange) (time.Duration, error) { return clients[t.credits].run(ctx, server, x) }
		var err error
		if t.machine {
			run = func(x exchange) (time.Duration, error) { return senders[senderKey{t.credits, t.delivery}].run(ctx, x) }
		}
		if t.selftest {
			err = testers[t.credits].within(ctx, server, func(run runner) error { return measure(c, t, run, floor, table) })
		} else {
			err = measure(c, t, run, floor, table)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return table.Flush()
}

// senderKey tells senders apart.
type senderKey struct {
	credits  int
	delivery tmhost.Delivery
}

// runner makes the transfers of an exchange and returns how long they took.
type runner func(x exchange) (time.Duration, error)

// measure runs one case, ours and plain in turn, and prints medians.
func measure(c Config, t test, run runner, floor *floorClient, w io.Writer) error {
	x := exchange{n: 128, in: t.in, out: t.out, window: t.window, blocking: t.blocking}
	if _, err := run(x); err != nil {
		return err
	}
	in, out := t.plain()
	took, err := floor.exchange(x.n, in, out, t.window)
	if err != nil {
		return err
	}
	x.n = max(x.n, int(c.Time/max(took/time.Duration(x.n), 1)))
	x.n -= x.n % t.window
	var our, plain, ratios []float64
	for range c.Rounds {
		a, err := run(x)
		if err != nil {
			return err
		}
		b, err := floor.exchange(x.n, in, out, t.window)
		if err != nil {
			return err
		}
		our = append(our, t.figure(a, x.n))
		plain = append(plain, t.figure(b, x.n))
		ratios = append(ratios, t.figure(a, x.n)/t.figure(b, x.n))
	}
	_, err = fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\n", t.name, t.show(median(our)), t.show(median(plain)), median(ratios), t.goalText())
	return err
}

// plain is what a message and its answer carry in the plain exchange: of a
// selftest's ping, as much as its messages.
func (t *test) plain() (in, out int) {
	if t.selftest && t.in+t.out == 0 {
		return message.Size, message.Size
	}
	return t.in, t.out
}

// figure is a case's figure for n transfers in a time.
func (t *test) figure(took time.Duration, n int) float64 {
	each := took.Seconds() / float64(n)
	switch t.unit {
	case gigabytes:
		return float64(max(t.in, t.out)) / each / 1e9
	case perSecond:
		return 1 / each
	}
	return each * 1e6
}

func (t *test) show(v float64) string {
	switch t.unit {
	case gigabytes:
		return fmt.Sprintf("%.2f GB/s", v)
	case perSecond:
		return fmt.Sprintf("%.0f /s", v)
	}
	return fmt.Sprintf("%.1f µs", v)
}

func (t *test) goalText() string {
	switch {
	case t.goal == 0:
		return ""
	case t.atLeast:
		return fmt.Sprintf("at least %.2f", t.goal)
	}
	return fmt.Sprintf("at most %.1f", t.goal)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
