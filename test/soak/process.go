package soak

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// process is what one of the two processes consists of: a node, a sender, a receiver, and a breaker.
type process struct {
	config   Config
	side     side
	notes    *notes
	findings findings

	baseline Sample // resources in use before the node was created
	breaker  *breaker
	testNode *testNode
	sender   *sender
	receiver *receiver

	began     time.Time
	ran       time.Duration // how long messages were sent
	stall     time.Duration
	idleAfter time.Duration // time from the end of the last operation until the node was idle
	confirmed uint64        // number of acknowledged messages of the peer that were compared with the receiver's record

	mu      sync.Mutex // guards samples
	samples []Sample
}

// newProcess creates the node, the sender and the receiver. When it returns, the peer can reach the
// node.
func newProcess(ctx context.Context, c Config, s side, n *notes, log *slog.Logger) (*process, error) {
	p := &process{config: c, side: s, notes: n, baseline: takeSample(0), breaker: newBreaker(&c, s)}
	var err error
	if p.testNode, err = newTestNode(ctx, &c, s, p.breaker, log); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	pattern := newPattern()
	peer := c.to(s.other())
	p.sender = newSender(p.testNode.node, peer, c.seed(s), pattern, &p.findings)
	p.sender.pageEnded = func(page uint64, acked *bitmap) {
		if err := n.write(&note{Topic: notePage, Page: page, Acked: acked}); err != nil {
			p.findings.add("page %d: %v", page, err)
		}
	}
	p.receiver = newReceiver(p.testNode.node, c.nids(s.other()), c.seed(s.other()), pattern, &p.findings)
	if err := p.receiver.post(); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return p, nil
}

// work sends messages and breaks connections until ctx is done, and then waits for the operations in
// progress. It calls sampled with each sample.
func (p *process) work(ctx context.Context, sampled func(Sample)) {
	p.began = time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		if p.testNode.awaitPeerNIDs(ctx, p.config.nids(p.side.other())) == nil {
			p.breaker.run(ctx)
		}
		p.ran = time.Since(p.began)
	})
	all.Go(func() { p.sample(ctx, sampled) })
	p.stall = p.sender.run(ctx, p.config.Window, p.config.drainTimeout())
	all.Wait()
}

func (p *process) sample(ctx context.Context, sampled func(Sample)) {
	tick := time.NewTicker(p.config.Sample)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := takeSample(time.Since(p.began))
		for k := range kinds {
			s.Done += p.sender.done[k].Load()
		}
		for _, n := range p.breaker.counts() {
			s.Kills += n
		}
		p.sender.mu.Lock()
		s.Parked, s.Sinks = p.sender.parked, p.sender.sinkBytes
		p.sender.mu.Unlock()
		p.mu.Lock()
		p.samples = append(p.samples, s)
		p.mu.Unlock()
		sampled(s)
	}
}

// comparePage compares a page of the peer's sentRecord with the receiver's record. A message that was
// acknowledged and has not arrived is a violation.
func (p *process) comparePage(page uint64, acked *bitmap) {
	n, lost := p.receiver.record.compare(page, acked, time.Now())
	p.confirmed += uint64(n)
	for _, seq := range lost {
		p.findings.add("message %d was acknowledged and has not arrived", seq)
	}
}

// flush sends the remaining pages of the sender's record to the other process.
func (p *process) flush() error {
	acked, _ := p.sender.record.remaining()
	for page, b := range acked {
		if err := p.notes.write(&note{Topic: notePage, Page: page, Acked: b}); err != nil {
			return err
		}
	}
	return p.notes.write(&note{Topic: noteFlushed})
}

// awaitIdle waits until the node is idle. It is a violation if that takes longer than drainTimeout.
func (p *process) awaitIdle() {
	// The time limit is that of operations, because a recovery ping whose answer is lost ends as late as
	// they do.
	drained := time.Now()
	if err := p.testNode.awaitIdle(p.config.drainTimeout()); err != nil {
		p.findings.add("not at rest: %v", err)
	}
	p.idleAfter = time.Since(drained)
}

const (
	leakTimeout = time.Minute
	// extraDescriptors is the number of descriptors that the Go runtime opens once, for its poller.
	extraDescriptors = 3
)

// finish closes the node, checks that goroutines and descriptors were released, and returns the report.
func (p *process) finish() Report {
	r := p.report()
	if err := p.testNode.close(); err != nil {
		p.findings.add("%v", err)
	}
	if err := p.checkLeaks(); err != nil {
		p.findings.add("%v", err)
	}
	r.Found, r.Findings = p.findings.list()
	return r
}

// checkLeaks returns an error if there are more goroutines or descriptors than before the node was
// created. It waits up to leakTimeout, because goroutines may still be exiting after Close has returned.
func (p *process) checkLeaks() error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(leakTimeout); ; <-tick.C {
		now := takeSample(0)
		switch {
		case now.Goroutines <= p.baseline.Goroutines && now.Descriptors <= p.baseline.Descriptors+extraDescriptors:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d goroutines and %d descriptors are left, there were %d and %d",
				now.Goroutines, now.Descriptors, p.baseline.Goroutines, p.baseline.Descriptors)
		}
	}
}

// report returns the report without the findings, which finish adds.
func (p *process) report() Report {
	s, v := p.sender, p.receiver
	_, begun := s.record.remaining()
	r := Report{
		Side: p.side.String(), Ran: p.ran, Begun: begun, Bytes: s.bytes.Load(),
		Done: make(map[string]uint64), Lost: make(map[string]uint64), Failed: make(map[string]uint64),
		Kills: p.breaker.counts(), Stall: p.stall, IdleAfter: p.idleAfter, Confirmed: p.confirmed,
		Delivered: v.whole.Load(), Broken: v.broken.Load(), Served: v.served.Load(),
		Counters: p.testNode.node.Admin().Counters(),
	}
	var err error
	if r.Rails, err = p.testNode.rails(p.config.nids(p.side.other())); err != nil {
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
