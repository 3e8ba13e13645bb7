package console

import (
	"context"
	"math"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// Limits of a session.
const (
	maxBatches = 4096
	maxTests   = 4096 // per batch
)

// batch is a set of tests that are started together. Console.mu guards it.
type batch struct {
	name             string
	id               uint64
	tests            []*test // the test with index k is at k-1
	clients, servers roster
	confirmed        map[*member]uint32 // number of tests of the batch that each node has confirmed
	unconfirmed      map[*member]bool   // nodes that did not answer, so that they may have a test that confirmed does not count

	running bool
	runs    int // number of runs so far; identifies the latest run
}

// roster is a list of nodes, each of which it contains once.
type roster struct {
	list []*member
	in   map[*member]bool
}

// note records the results of adding a test to the nodes in asked. It adds these nodes to the roster. In
// index it sets the index that the test has on each node, if that is known.
func (r *roster) note(b *batch, index map[*member]uint32, asked []*member, came *Result) {
	for k, m := range asked {
		if !r.in[m] {
			if r.in == nil {
				r.in = map[*member]bool{}
			}
			r.in[m] = true
			r.list = append(r.list, m)
		}
		switch n := &came.Nodes[k]; {
		case n.RPC != 0:
			b.unconfirmed[m] = true
		case n.Success:
			b.confirmed[m]++
			if !b.unconfirmed[m] {
				index[m] = b.confirmed[m]
			}
		}
	}
}

func (s *session) batch(name string) *batch {
	for _, b := range s.batches {
		if b.name == name {
			return b
		}
	}
	return nil
}

// newBatch adds an empty batch to the session. The caller holds c.mu.
func (c *Console) newBatch(s *session, name string) {
	c.batches++
	s.batches = append(s.batches, &batch{name: name, id: c.batches, confirmed: map[*member]uint32{}, unconfirmed: map[*member]bool{}})
}

// AddBatch adds an empty batch to the session. Each session begins with a batch named "batch". AddBatch
// returns EEXIST if the name is in use, and EINVAL if it is invalid.
func (c *Console) AddBatch(key Key, name string) error {
	if err := checkName("batch", name); err != nil {
		return err
	}
	return c.withSession(key, func(s *session) error {
		switch {
		case s.batch(name) != nil:
			return &Error{Errno: syscall.EEXIST, What: "batch", Name: name}
		case len(s.batches) >= maxBatches:
			return refuse(syscall.ENOMEM, "batch", name, "at most %d batches are possible", maxBatches)
		}
		c.newBatch(s, name)
		return nil
	})
}

// Batches returns the names of all batches in the order in which they were added.
func (c *Console) Batches(key Key) (names []string, err error) {
	err = c.withSession(key, func(s *session) error {
		names = make([]string, 0, len(s.batches))
		for _, b := range s.batches {
			names = append(names, b.name)
		}
		return nil
	})
	return names, err
}

// Batch describes a batch. It returns ENOENT if there is no such batch.
func (c *Console) Batch(key Key, name string) (i BatchInfo, err error) {
	err = c.withSession(key, func(s *session) error {
		b := s.batch(name)
		if b == nil {
			return notFound("batch", name)
		}
		i = BatchInfo{
			Name: b.name, ID: b.id, Running: b.running, Tests: make([]TestInfo, 0, len(b.tests)),
			Clients: membersOf(b.clients.list), Servers: membersOf(b.servers.list),
		}
		for k, t := range b.tests {
			i.Tests = append(i.Tests, TestInfo{
				Index: k + 1, Test: t.Test, Clients: membersOf(t.from.members), Servers: membersOf(t.to.members),
			})
		}
		return nil
	})
	return i, err
}

// request returns a request for operation op on the batch. The caller holds c.mu.
func (b *batch) request(s *session, op message.BatchOp) message.BatchRequest {
	return message.BatchRequest{Header: s.header(), Session: s.id, Batch: b.id, Op: op}
}

// nodeRequests returns the node requests of a transaction that sends the same request to all nodes in list.
func (b *batch) nodeRequests(list []*member, q message.BatchRequest) []*nodeRequest {
	requests := make([]*nodeRequest, len(list))
	for k, m := range list {
		requests[k] = &nodeRequest{member: m, request: &q, reply: new(message.BatchReply)}
	}
	return requests
}

// Run starts the tests of a batch on all its clients. They end when their loops are done, when Stop is
// called, or after stopAfter if that is not 0. If the batch is already running, it is started again on those
// clients where it has ended. If the batch has no tests, no request is sent. Run returns ENOENT if there is
// no such batch, and ENETDOWN if a client is not active.
func (c *Console) Run(ctx context.Context, key Key, name string, stopAfter time.Duration) (Result, error) {
	x, err := c.beginChange(ctx, key)
	if err != nil {
		return Result{}, err
	}
	defer x.end()
	s := x.session
	c.mu.Lock()
	b := s.batch(name)
	var requests []*nodeRequest
	switch {
	case b == nil:
		err = notFound("batch", name)
	case stopAfter < 0:
		err = refuse(syscall.EINVAL, "batch", name, "timeout %v is negative", stopAfter)
	default:
		n := membersOf(b.clients.list).Count
		if n.Active < n.Total {
			err = refuse(syscall.ENETDOWN, "batch", name, "%d of its %d clients are not active", n.Total-n.Active, n.Total)
			break
		}
		b.runs++
		q := b.request(s, message.BatchRun)
		q.Arg = uint32(min((stopAfter+time.Second-1)/time.Second, math.MaxInt32)) // nodes ignore it
		requests = b.nodeRequests(b.clients.list, q)
	}
	c.mu.Unlock()
	if err != nil {
		return Result{}, err
	}
	r := c.transact(x.ctx, s, defaultLimit, requests, nil)
	c.mu.Lock()
	if r.Succeeded > 0 {
		b.running = true
		if stopAfter > 0 && !s.ending {
			s.work.Add(1)
			run := b.runs
			c.work.Go(func() {
				defer s.work.Done()
				c.stopLater(s, b, run, stopAfter)
			})
		}
	}
	c.mu.Unlock()
	return r, stopped(x.ctx)
}

// stopLater stops the given run of a batch after the given time, unless the run or the session has ended
// before.
func (c *Console) stopLater(s *session, b *batch, run int, after time.Duration) {
	t := time.NewTimer(after)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
		return
	}
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-s.ctx.Done():
		return
	}
	c.mu.Lock()
	over := b.runs != run || !b.running
	c.mu.Unlock()
	if !over {
		c.stop(s.ctx, s, b, false)
	}
}

// Stop ends the tests of a batch on all its clients. They end after their current RPCs or, with force, abort
// these. Use Query to find out when they have ended. Stop returns ENOENT if there is no such batch.
func (c *Console) Stop(ctx context.Context, key Key, name string, force bool) (Result, error) {
	x, err := c.beginChange(ctx, key)
	if err != nil {
		return Result{}, err
	}
	defer x.end()
	c.mu.Lock()
	b := x.batch(name)
	c.mu.Unlock()
	if b == nil {
		return Result{}, notFound("batch", name)
	}
	r := c.stop(x.ctx, x.session, b, force)
	return r, stopped(x.ctx)
}

func (c *Console) stop(ctx context.Context, s *session, b *batch, force bool) Result {
	c.mu.Lock()
	q := b.request(s, message.BatchStop)
	if force {
		q.Arg = 1
	}
	requests := b.nodeRequests(b.clients.list, q)
	for _, l := range requests {
		if l.member.state == Down {
			l.limit = minLimit // the node has not answered the previous request, so do not wait long
		}
	}
	c.mu.Unlock()
	const eperm = message.Status(syscall.EPERM)
	r := c.transact(ctx, s, defaultLimit, requests, func(status message.Status) bool {
		return status == message.OK || status == eperm
	})
	if r.OK() {
		c.mu.Lock()
		b.running = false
		c.mu.Unlock()
	}
	return r
}

// QueryOptions are the options of Query.
type QueryOptions struct {
	// Test is the index of the test to query, from 1. 0 means the batch as a whole.
	Test int `json:"test"`
	// Servers means that the servers are queried instead of the clients. Servers always report that nothing
	// is running, because only clients know about running tests.
	Servers bool `json:"servers"`
	// Timeout is the time that nodes have to answer, at least 3 s. 0 means 30 s.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Query queries the nodes of a batch whether the batch, or one of its tests, is running. It returns ENOENT if
// there is no such batch or test.
func (c *Console) Query(ctx context.Context, key Key, name string, o QueryOptions) (QueryResult, error) {
	x, err := c.begin(ctx, key)
	if err != nil {
		return QueryResult{}, err
	}
	defer x.end()
	s := x.session
	c.mu.Lock()
	b := s.batch(name)
	var requests []*nodeRequest
	runs := 0
	switch {
	case b == nil:
		err = notFound("batch", name)
	case o.Test < 0 || o.Test > len(b.tests):
		err = refuse(syscall.ENOENT, "test", "", "batch %q has only %d tests, but test %d was requested", name, len(b.tests), o.Test)
	default:
		runs = b.runs
		requests = b.queries(s, o)
	}
	c.mu.Unlock()
	if err != nil {
		return QueryResult{}, err
	}
	r := QueryResult{Result: c.transact(x.ctx, s, limitOf(o.Timeout, math.MaxInt64), requests, nil)}
	for k := range r.Nodes {
		switch n := &r.Nodes[k]; {
		case !n.Success:
			r.Failed++
		case n.Active > 0:
			r.Running++
		default:
			r.Idle++
		}
	}
	if o.Test == 0 && !o.Servers && r.Idle == len(requests) {
		c.mu.Lock()
		if b.runs == runs { // otherwise another run has begun during the query
			b.running = false
		}
		c.mu.Unlock()
	}
	return r, stopped(x.ctx)
}

// queries returns the node requests of a transaction that queries the batch or one of its tests. The caller
// holds c.mu.
func (b *batch) queries(s *session, o QueryOptions) []*nodeRequest {
	q := b.request(s, message.BatchQuery)
	if o.Test == 0 {
		if o.Servers {
			return b.nodeRequests(b.servers.list, q)
		}
		return b.nodeRequests(b.clients.list, q)
	}
	t := b.tests[o.Test-1]
	list, index := t.from.members, t.clientIndex
	if o.Servers {
		list, index = t.to.members, t.serverIndex
	}
	requests := make([]*nodeRequest, len(list))
	for k, m := range list {
		own := q
		if own.Test = index[m]; own.Test == 0 {
			own.Test = math.MaxUint32 // the node does not have the test, and answers ENOENT
		}
		requests[k] = &nodeRequest{member: m, request: &own, reply: new(message.BatchReply)}
	}
	return requests
}
