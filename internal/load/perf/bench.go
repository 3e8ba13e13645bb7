package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Method is a way to make the exchanges of a case. All methods make the same number of exchanges with
// the same sizes.
type Method string

// The methods.
const (
	MethodLNet  Method = "lnetd"
	MethodFloor Method = "floor" // plain TCP, with one write for each message
	MethodLimit Method = "limit" // plain TCP, with one write for many messages and with polling
)

// methods are the methods in the order in which they alternate.
var methods = []Method{MethodLNet, MethodFloor, MethodLimit}

// senderKey identifies a sender by its peer credits and its way of delivery.
type senderKey struct {
	credits  int
	delivery int
}

// bench is the active process: its nodes, clients and counters.
type bench struct {
	config  Config
	server  lnet.NID
	clients map[int]*lnetNode // by peer credits
	testers map[int]*tester
	senders map[senderKey]*sender
	floor   *floorClient
	limit   *limitClient

	meter *meter
	// overhead is the cost of the counting itself in the active and in the passive process. The key is
	// false for rounds that measure time, and true for rounds that count system calls.
	overhead map[bool]*[2]Cost

	current *test // the open case, or nil
	session *selftestSession
}

// startBench starts the nodes, clients and plain connections of the active process. Serve must be
// running in another process. The caller must call stop.
func startBench(ctx context.Context, c Config) (b *bench, err error) {
	b = &bench{
		config: c, server: lnet.NIDFromIP(c.net(), c.Server), overhead: map[bool]*[2]Cost{},
		clients: map[int]*lnetNode{}, testers: map[int]*tester{}, senders: map[senderKey]*sender{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.meter, err = newMeter(); err != nil {
		return nil, err
	}
	for _, credits := range []int{8, highCredits} {
		if err := b.startClient(ctx, credits); err != nil {
			return nil, err
		}
	}
	if b.floor, err = dialFloor(ctx, c.plainAddress()); err != nil {
		return nil, err
	}
	if b.limit, err = dialLimit(ctx, c.plainAddress()); err != nil {
		return nil, err
	}
	return b, b.measureOverhead()
}

// startClient starts a node with the given number of peer credits, and its tester and senders. The node
// has a separate address, so that it shares no connection with the other node.
func (b *bench) startClient(ctx context.Context, credits int) error {
	address := b.config.Client
	if credits == highCredits {
		address = address.Next().Next()
	}
	o, err := startNode(ctx, &b.config, address, credits)
	if err != nil {
		return err
	}
	b.clients[credits] = o
	if b.testers[credits], err = o.newTester(); err != nil {
		delete(b.testers, credits)
		return err
	}
	for _, delivery := range deliveries {
		s, err := o.newSender(ctx, delivery, b.server, tmEchoes)
		if err != nil {
			return err
		}
		b.senders[senderKey{credits, int(delivery)}] = s
	}
	return nil
}

func (b *bench) stop() (err error) {
	if b.limit != nil {
		err = errors.Join(err, b.limit.conn.Close())
	}
	if b.floor != nil {
		err = errors.Join(err, b.floor.conn.Close())
	}
	for _, t := range b.testers {
		err = errors.Join(err, t.close())
	}
	for _, o := range b.clients {
		err = errors.Join(err, o.close())
	}
	if b.meter != nil {
		err = errors.Join(err, b.meter.close())
	}
	return err
}

// overheadSamples is the number of empty measurements whose minimum is the overhead.
const overheadSamples = 7

// measureOverhead measures the cost of the counting itself. run subtracts it from the costs of a round.
func (b *bench) measureOverhead() error {
	for _, calls := range []bool{false, true} {
		overhead := new([2]Cost)
		for range overheadSamples {
			asks, answers, err := b.count(calls, func() error { return nil })
			if err != nil {
				return err
			}
			overhead[0], overhead[1] = overhead[0].minimum(asks), overhead[1].minimum(answers)
		}
		b.overhead[calls] = overhead
	}
	return nil
}

// count runs f and returns the costs of the active process and of the passive process meanwhile. answers
// is nil if the passive process reports no costs. With calls, only system calls are counted.
func (b *bench) count(calls bool, f func() error) (asks, answers Cost, err error) {
	if b.config.Passive != nil {
		if err := b.config.Passive.beginCosts(calls); err != nil {
			return nil, nil, err
		}
	}
	if err := b.meter.begin(calls); err != nil {
		return nil, nil, err
	}
	if err := f(); err != nil {
		return nil, nil, err
	}
	if asks, err = b.meter.end(); err != nil {
		return nil, nil, err
	}
	if b.config.Passive != nil {
		answers, err = b.config.Passive.endCosts()
	}
	return asks, answers, err
}

// open implements benchPair.
func (b *bench) open(ctx context.Context, name string) error {
	all := tests()
	k := slices.IndexFunc(all, func(t test) bool { return t.name == name })
	if k < 0 {
		return fmt.Errorf("case %q does not exist", name)
	}
	b.current = &all[k]
	if !b.current.selftest {
		return nil
	}
	var err error
	b.session, err = b.testers[b.current.credits].open(ctx, b.server)
	return err
}

// close implements benchPair.
func (b *bench) close(ctx context.Context) (err error) {
	if b.session != nil {
		err = b.session.close(ctx)
	}
	b.current, b.session = nil, nil
	return err
}

// run implements benchPair.
func (b *bench) run(ctx context.Context, method Method, n int, calls bool) (r Round, err error) {
	if b.current == nil {
		return r, errors.New("a round was requested before a case")
	}
	var l *laps
	if b.current.unit == microseconds && !calls {
		l = newLaps(n)
	}
	asks, answers, err := b.count(calls, func() error {
		r.Took, err = b.exchange(ctx, method, n, l)
		return err
	})
	if err != nil {
		return r, err
	}
	r.Latency = l.histogram()
	overhead := b.overhead[calls]
	r.Asks = asks.each(n, overhead[0])
	if answers != nil {
		r.Answers = answers.each(n, overhead[1])
	}
	return r, nil
}

// exchange makes n exchanges of the open case with a method, and returns the time taken. l must be nil if several
// are in flight.
func (b *bench) exchange(ctx context.Context, method Method, n int, l *laps) (time.Duration, error) {
	t := b.current
	in, out := t.plain()
	x := exchange{n: n, in: t.in, out: t.out, window: t.window, blocking: t.blocking}
	switch {
	case method == MethodFloor:
		return b.floor.exchange(n, in, out, t.window, l)
	case method == MethodLimit:
		return b.limit.exchange(n, in, out, t.window, l)
	case method != MethodLNet:
		return 0, fmt.Errorf("method %q does not exist", method)
	case t.machine:
		return b.senders[senderKey{t.credits, int(t.delivery)}].run(ctx, x, l)
	case t.selftest:
		return b.session.run(ctx, x)
	}
	return b.clients[t.credits].run(ctx, b.server, x, l)
}
