package coretest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// chaos is one buffer with a goroutine that performs random operations on it.
type chaos struct {
	m, peer *machine
	b       *transport.Buffer
	// announced contains the descriptors of this side's passive buffers, wanted those of the peer's.
	announced, wanted *lastDescriptors
	random            *rand.Rand
	ended             chan transport.BufferEvent // final events, one for each add
	// adds, cancels and failures are the expected statistics.
	adds, cancels, failures uint64
}

// lastDescriptors contains the latest descriptor of each passive queue of one side. Most of these descriptors
// belong to buffers that have ended.
type lastDescriptors struct {
	mu   sync.Mutex
	list map[transport.QueueType]transport.Descriptor
}

func (l *lastDescriptors) set(q transport.QueueType, d transport.Descriptor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list[q] = bytes.Clone(d)
}

func (l *lastDescriptors) get(q transport.QueueType) transport.Descriptor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[q]
}

// everyAddEndsOnce adds many buffers to all queues, cancels them, and lets deadlines pass, all at random.
// Then it stops the TMs during adds. Each accepted add must have exactly one final event with a possible
// error, and the statistics must agree.
//
// transport 3.10 guarantees
func everyAddEndsOnce(s *stage) {
	const buffers, rounds = 6, 150
	a, b := s.pair()
	var sides [2]*lastDescriptors
	for k := range sides {
		sides[k] = &lastDescriptors{list: map[transport.QueueType]transport.Descriptor{}}
	}
	var all []*chaos
	for k, m := range []*machine{a, b} {
		for i := range buffers {
			c := &chaos{
				m: m, peer: []*machine{b, a}[k], b: m.buffer(500),
				announced: sides[k], wanted: sides[1-k],
				random: rand.New(rand.NewPCG(uint64(k), uint64(i))), ended: make(chan transport.BufferEvent, 4),
			}
			c.b.Callbacks = c.callbacks()
			all = append(all, c)
		}
	}
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for range rounds {
				if !c.run(s) {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, m := range []*machine{a, b} {
		var want, got transport.Stats
		for _, c := range all {
			if c.m == m {
				want.Adds, want.Cancels, want.Failures = want.Adds+c.adds, want.Cancels+c.cancels, want.Failures+c.failures
			}
		}
		for _, q := range m.AllStats() {
			got.Adds, got.Cancels, got.Failures = got.Adds+q.Adds, got.Cancels+q.Cancels, got.Failures+q.Failures
		}
		if got != want {
			s.t.Errorf("%+v, not %+v", got, want)
		}
	}
	s.stopAmongAdds(a, all)
}

// callbacks returns callbacks that record final events.
func (c *chaos) callbacks() *transport.Callbacks {
	var list transport.Callbacks
	for q := range list {
		list[q] = func(e *transport.BufferEvent) {
			if e.Final {
				c.ended <- transport.BufferEvent{Buffer: e.Buffer, Queue: e.Queue, Err: e.Err, Time: e.Time}
			}
		}
	}
	return &list
}

// add adds the buffer to a random queue, with a deadline in the near future.
func (c *chaos) add() (deadline time.Time, err error) {
	b := c.b
	b.Queue = transport.QueueType(c.random.IntN(transport.QueueTypes))
	b.Length, b.MinReceiveSize, b.MaxMessages = 500, 500, 1
	b.EndPoint, b.Descriptor = nil, nil
	deadline = time.Now().Add(time.Duration(c.random.IntN(3000)+1) * time.Microsecond)
	b.Deadline = deadline
	switch b.Queue {
	case transport.MsgSend:
		to := c.peer.Self().Address()
		if b.EndPoint, err = c.m.EndPointAt(to); err != nil {
			return deadline, err
		}
		defer b.EndPoint.Put()
	case transport.ActiveBulkRecv:
		b.Descriptor = c.wanted.get(transport.PassiveBulkSend)
	case transport.ActiveBulkSend:
		b.Descriptor = c.wanted.get(transport.PassiveBulkRecv)
	}
	q := b.Queue
	if err = c.m.Add(b); err == nil && (q == transport.PassiveBulkRecv || q == transport.PassiveBulkSend) {
		c.announced.set(q, b.Descriptor)
	}
	return deadline, err
}

// run adds the buffer once, may cancel it, and waits for its final event. It returns false after a failure.
func (c *chaos) run(s *stage) bool {
	deadline, err := c.add()
	if errors.Is(err, syscall.ETIME) || errors.Is(err, syscall.EINVAL) && c.b.Descriptor == nil {
		return true // the deadline has passed already, or there is no descriptor yet
	}
	if err != nil {
		s.t.Errorf("add to %v: %v", c.b.Queue, err)
		return false
	}
	c.adds++
	for c.random.IntN(3) == 0 {
		if c.m.Cancel(c.b) {
			c.cancels++
		}
	}
	timer := time.NewTimer(s.h.Patience)
	defer timer.Stop()
	select {
	case e := <-c.ended:
		return c.checkFinal(s, e, deadline)
	case <-timer.C:
		s.t.Errorf("%v: no final event", c.b.Queue)
		return false
	}
}

// checkFinal checks a final event. It returns false if the goroutine must not continue.
func (c *chaos) checkFinal(s *stage, e transport.BufferEvent, deadline time.Time) bool {
	if e.Err != nil {
		c.failures++
	}
	switch {
	case e.Err == nil || errors.Is(e.Err, syscall.ECANCELED):
	case errors.Is(e.Err, syscall.ETIMEDOUT):
		if e.Time.Before(deadline) {
			s.t.Errorf("%v: timed out %v too early", e.Queue, deadline.Sub(e.Time))
		}
	case s.h.Strict && (errors.Is(e.Err, syscall.ENOBUFS) || errors.Is(e.Err, syscall.ENOENT)):
	default:
		s.t.Errorf("%v: %v", e.Queue, e.Err)
	}
	if len(c.ended) > 0 {
		s.t.Errorf("%v: a second final event", e.Queue)
		return false
	}
	return true
}

// stopAmongAdds stops TM m while goroutines add all of its buffers again and again.
func (s *stage) stopAmongAdds(m *machine, all []*chaos) {
	s.t.Helper()
	var wg sync.WaitGroup
	for _, c := range all {
		if c.m != m {
			continue
		}
		wg.Go(func() {
			for {
				if _, err := c.add(); errors.Is(err, syscall.EINVAL) && m.State() != transport.StateStarted {
					return
				} else if err == nil {
					<-c.ended
				}
			}
		})
	}
	s.must(m.Abort())
	ctx, cancel := s.context()
	defer cancel()
	s.must(m.Await(ctx, transport.StateStopped))
	wg.Wait()
	for _, c := range all {
		if len(c.ended) > 0 || c.b.Flags() != transport.FlagRegistered {
			s.t.Errorf("%v: %d events too many, flags %x", c.b.Queue, len(c.ended), c.b.Flags())
		}
	}
}
