package soak

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// party is the work of one process.
type party struct {
	config   Config
	side     side
	notes    *notes
	findings findings

	base     Sample // before the party was created
	breaker  *breaker
	rig      *rig
	sender   *sender
	receiver *receiver

	began    time.Time
	ran      time.Duration // without the drain
	stall    time.Duration
	rested   time.Duration // from the last operation's end until the node was at rest
	confirms uint64        // acknowledged messages checked against the receiver's record

	mu      sync.Mutex // guards samples
	samples []Sample
}

// newParty creates a node that its peer can reach.
func newParty(ctx context.Context, c Config, s side, n *notes, log *slog.Logger) (*party, error) {
	p := &party{config: c, side: s, notes: n, base: look(0), breaker: newBreaker(&c, s)}
	var err error
	if p.rig, err = newRig(ctx, &c, s, p.breaker, log); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	pattern := newPattern()
	peer := c.to(s.other())
	p.sender = newSender(p.rig.node, peer, c.seed(s), pattern, &p.findings)
	p.sender.settled = func(page uint64, acked *bitmap) {
		if err := n.write(&note{Topic: notePage, Page: page, Acked: acked}); err != nil {
			p.findings.add("page %d: %v", page, err)
		}
	}
	p.receiver = newReceiver(p.rig.node, c.nids(s.other()), c.seed(s.other()), pattern, &p.findings)
	if err := p.receiver.post(); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return p, nil
}

// work sends and breaks connections until ctx ends, then drains. It calls sampled with each sample.
func (p *party) work(ctx context.Context, sampled func(Sample)) {
	p.began = time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		if p.rig.meet(ctx, p.config.nids(p.side.other())) == nil {
			p.breaker.run(ctx)
		}
		p.ran = time.Since(p.began)
	})
	all.Go(func() { p.sample(ctx, sampled) })
	p.stall = p.sender.run(ctx, p.config.Window, p.config.patience())
	all.Wait()
}

func (p *party) sample(ctx context.Context, sampled func(Sample)) {
	tick := time.NewTicker(p.config.Sample)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := look(time.Since(p.began))
		for k := range kinds {
			s.Done += p.sender.done[k].Load()
		}
		for _, n := range p.breaker.kills() {
			s.Kills += n
		}
		p.sender.mu.Lock()
		s.Parked, s.Sinks = p.sender.parked, p.sender.sinkMade
		p.sender.mu.Unlock()
		p.mu.Lock()
		p.samples = append(p.samples, s)
		p.mu.Unlock()
		sampled(s)
	}
}

// settled checks a page of the peer's account.
func (p *party) settled(page uint64, acked *bitmap) {
	n, lost := p.receiver.register.settle(page, acked, time.Now())
	p.confirms += uint64(n)
	for _, seq := range lost {
		p.findings.add("message %d was acknowledged and has not arrived", seq)
	}
}

// flush sends the rest of the account.
func (p *party) flush() error {
	acked, _ := p.sender.account.rest()
	for page, b := range acked {
		if err := p.notes.write(&note{Topic: notePage, Page: page, Acked: b}); err != nil {
			return err
		}
	}
	return p.notes.write(&note{Topic: noteFlushed})
}

// rest waits until the node is at rest.
func (p *party) rest() {
	// A recovery ping whose answer was lost ends as late as other operations.
	drained := time.Now()
	if err := p.rig.settle(p.config.patience()); err != nil {
		p.findings.add("not at rest: %v", err)
	}
	p.rested = time.Since(drained)
}

const (
	endPatience = time.Minute
	// extraDescriptors is the number of descriptors that the Go runtime opens once, for its poller.
	extraDescriptors = 3
)

// finish closes the node and checks that nothing is left of it.
func (p *party) finish() Report {
	r := p.report()
	if err := p.rig.close(); err != nil {
		p.findings.add("%v", err)
	}
	if err := p.leftover(); err != nil {
		p.findings.add("%v", err)
	}
	r.Found, r.Findings = p.findings.list()
	return r
}

// leftover compares goroutines and descriptors with those before the node was created. A goroutine
// that has been waited for may still be exiting.
func (p *party) leftover() error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(endPatience); ; <-tick.C {
		now := look(0)
		switch {
		case now.Goroutines <= p.base.Goroutines && now.Descriptors <= p.base.Descriptors+extraDescriptors:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d goroutines and %d descriptors are left, there were %d and %d",
				now.Goroutines, now.Descriptors, p.base.Goroutines, p.base.Descriptors)
		}
	}
}

// report returns a report without findings.
func (p *party) report() Report {
	s, v := p.sender, p.receiver
	_, begun := s.account.rest()
	r := Report{
		Side: p.side.String(), Ran: p.ran, Begun: begun, Bytes: s.bytes.Load(),
		Done: make(map[string]uint64), Lost: make(map[string]uint64), Failed: make(map[string]uint64),
		Kills: p.breaker.kills(), Stall: p.stall, Rested: p.rested, Confirmed: p.confirms,
		Delivered: v.whole.Load(), Broken: v.broken.Load(), Served: v.served.Load(),
		Counters: p.rig.node.Admin().Counters(),
	}
	var err error
	if r.Rails, err = p.rig.rails(p.config.nids(p.side.other())); err != nil {
		p.findings.add("rails: %v", err)
	}
	for k := range kinds {
		r.Done[k.String()], r.Lost[k.String()], r.Failed[k.String()] = s.done[k].Load(), s.lost[k].Load(), s.failed[k].Load()
	}
	s.mu.Lock()
	r.Failures = s.failures
	s.mu.Unlock()
	p.mu.Lock()
	r.Samples = p.samples
	p.mu.Unlock()
	return r
}
