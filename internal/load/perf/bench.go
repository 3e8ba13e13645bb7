package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Leg is a way to make the exchanges of a case.
type Leg string

// The ways to make exchanges.
const (
	LegLNet  Leg = "lnetd"
	LegFloor Leg = "floor" // plain TCP, a write for each message
	LegLimit Leg = "limit" // plain TCP, batched and spinning
)

// legs is the order in which the legs alternate.
var legs = []Leg{LegLNet, LegFloor, LegLimit}

// senderKey identifies a sender.
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
	// overhead is what counting itself costs both processes, without and with calls.
	overhead map[bool]*[2]Cost

	now    *test // the open case
	series *series
}

// startBench starts what the active process needs. A Serve must run in another process.
func startBench(ctx context.Context, c Config) (b *bench, err error) {
	b = &bench{
		config: c, server: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), c.Server), overhead: map[bool]*[2]Cost{},
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

// startClient starts a node with a separate address, so that it has its own connections and credits.
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

// overheadSamples is enough to find the minimum.
const overheadSamples = 7

// measureOverhead measures what counting itself costs.
func (b *bench) measureOverhead() error {
	for _, calls := range []bool{false, true} {
		looks := new([2]Cost)
		for range overheadSamples {
			asks, answers, err := b.count(calls, func() error { return nil })
			if err != nil {
				return err
			}
			looks[0], looks[1] = looks[0].least(asks), looks[1].least(answers)
		}
		b.overhead[calls] = looks
	}
	return nil
}

// count runs f and returns what both processes have paid.
func (b *bench) count(calls bool, f func() error) (asks, answers Cost, err error) {
	if b.config.Passive != nil {
		if err := b.config.Passive.begin(calls); err != nil {
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
		answers, err = b.config.Passive.end()
	}
	return asks, answers, err
}

// open implements arm.
func (b *bench) open(ctx context.Context, name string) error {
	all := tests()
	k := slices.IndexFunc(all, func(t test) bool { return t.name == name })
	if k < 0 {
		return fmt.Errorf("there is no case %q", name)
	}
	b.now = &all[k]
	if !b.now.selftest {
		return nil
	}
	var err error
	b.series, err = b.testers[b.now.credits].open(ctx, b.server)
	return err
}

// close implements arm.
func (b *bench) close(ctx context.Context) (err error) {
	if b.series != nil {
		err = b.series.close(ctx)
	}
	b.now, b.series = nil, nil
	return err
}

// run implements arm.
func (b *bench) run(ctx context.Context, leg Leg, n int, calls bool) (r Round, err error) {
	if b.now == nil {
		return r, errors.New("no case is open")
	}
	asks, answers, err := b.count(calls, func() error {
		r.Took, err = b.exchange(ctx, leg, n)
		return err
	})
	if err != nil {
		return r, err
	}
	looks := b.overhead[calls]
	r.Asks = asks.each(n, looks[0])
	if answers != nil {
		r.Answers = answers.each(n, looks[1])
	}
	return r, nil
}

// exchange makes n exchanges of the case.
func (b *bench) exchange(ctx context.Context, leg Leg, n int) (time.Duration, error) {
	t := b.now
	in, out := t.plain()
	x := exchange{n: n, in: t.in, out: t.out, window: t.window, blocking: t.blocking}
	switch {
	case leg == LegFloor:
		return b.floor.exchange(n, in, out, t.window)
	case leg == LegLimit:
		return b.limit.exchange(n, in, out, t.window)
	case leg != LegLNet:
		return 0, fmt.Errorf("there is no way %q", leg)
	case t.machine:
		return b.senders[senderKey{t.credits, int(t.delivery)}].run(ctx, x)
	case t.selftest:
		return b.series.run(ctx, x)
	}
	return b.clients[t.credits].run(ctx, b.server, x)
}
