package console

import (
	"context"
	"math"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/selftest/message"
)

// test is a test of a batch. Console.mu guards it.
type test struct {
	Test
	from, to *group
	// clientIndex and serverIndex contain, for each node, the index that this test has on the node. It can
	// differ from the index in the batch, because a node has only the tests that concern it. Queries contain
	// it. It is 0 if the node does not have the test, or if the index is unknown.
	clientIndex, serverIndex map[*member]uint32
}

// checkTest validates the parameters of a test that do not depend on the session, and sets t.Kind to lower
// case.
func checkTest(t *Test) error {
	fail := func(format string, args ...any) error {
		return refuse(syscall.EINVAL, "test", string(t.Kind), format, args...)
	}
	t.Kind = TestKind(strings.ToLower(string(t.Kind)))
	switch {
	case t.Kind != BulkTest && t.Kind != PingTest:
		return fail("unknown kind of test")
	case t.Loop == 0:
		return fail("loop must be at least 1")
	case t.Concurrency < 1 || t.Concurrency > message.MaxConcurrency:
		return fail("concurrency %d is not within 1 to %d", t.Concurrency, message.MaxConcurrency)
	case t.Distribute < 1 || t.Distribute > math.MaxInt32:
		return fail("distribution %d:%d: the first number is not within 1 to %d", t.Distribute, t.Span, math.MaxInt32)
	case t.Span < 1 || t.Span > message.DestinationsPerBlock:
		return fail("span %d is not within 1 to %d", t.Span, message.DestinationsPerBlock)
	}
	if t.Kind == PingTest {
		t.BRW = BRW{}
		return nil
	}
	b := &t.BRW
	if _, ok := checkMode(b); !ok {
		return fail("unknown check %q", b.Check)
	}
	pages := (b.Size + message.PageSize - 1) / message.PageSize
	switch {
	case b.Size < 8 || b.Size > message.MaxBulk || b.Size%8 != 0:
		return fail("size %d is not a multiple of 8 from 8 to %d", b.Size, message.MaxBulk)
	case b.Offset < 0 || b.Offset > math.MaxInt32 || b.Offset%8 != 0:
		return fail("offset %d is not a multiple of 8", b.Offset)
	case b.Offset%message.PageSize+b.Size > pages*message.PageSize:
		return fail("%d bytes at offset %d need more pages than %d bytes at offset 0", b.Size, b.Offset, b.Size)
	}
	return nil
}

func checkMode(b *BRW) (message.Check, bool) {
	switch b.Check {
	case "", "none":
		return message.CheckNone, true
	case "simple":
		return message.CheckSimple, true
	case "full":
		return message.CheckFull, true
	case "discard":
		return message.CheckDiscard, true
	}
	return 0, false
}

// testRequest returns the request that adds test t to a server. The caller sets the additional fields for
// clients.
func (s *session) testRequest(t *Test, batch uint64) message.TestRequest {
	q := message.TestRequest{
		Header: s.header(), Session: s.id, Batch: batch, Tests: message.ServicePing,
		Concurrency: uint32(t.Concurrency), StopOnError: true,
	}
	if t.Kind == PingTest {
		return q
	}
	check, _ := checkMode(&t.BRW)
	q.Tests = message.ServiceBRW
	q.BRW = message.BRWParameters{Op: message.BRWRead, Flags: uint32(check)}
	if t.BRW.Write {
		q.BRW.Op = message.BRWWrite
	}
	if s.features&message.BulkLength == 0 {
		q.BRW.Pages = uint32(t.BRW.Size / message.PageSize)
	} else {
		q.BRW.Length, q.BRW.Offset = uint32(t.BRW.Size), uint32(t.BRW.Offset)
	}
	return q
}

// AddTest adds a test to a batch, first on the servers, then on the clients (selftest 7.5). After that the
// nodes of its groups cannot change. If nodes fail, the test still exists under its index, and the result
// contains the errors. AddTest returns ENOENT if there is no such batch or group; EINVAL if a parameter is
// invalid or a group has no active nodes; EBUSY if the batch is running; and ENETDOWN if a node is not
// active.
func (c *Console) AddTest(ctx context.Context, key Key, t Test) (TestAddition, error) {
	if err := checkTest(&t); err != nil {
		return TestAddition{}, err
	}
	x, err := c.beginChange(ctx, key)
	if err != nil {
		return TestAddition{}, err
	}
	defer x.end()
	s := x.session

	c.mu.Lock()
	b, from, to, err := s.admit(&t)
	if err != nil {
		c.mu.Unlock()
		return TestAddition{}, err
	}
	from.tests++
	to.tests++
	v := &test{Test: t, from: from, to: to, clientIndex: map[*member]uint32{}, serverIndex: map[*member]uint32{}}
	base := s.testRequest(&t, b.id)
	c.mu.Unlock()

	// The test uses the groups now, so their lists of nodes do not change any more.
	limit := limitOf(t.Timeout, math.MaxInt64)
	a := TestAddition{Servers: c.transact(x.ctx, s, limit, v.serverRequests(base), nil), Clients: Result{Nodes: []NodeResult{}}}
	c.mu.Lock()
	b.servers.note(b, v.serverIndex, to.members, &a.Servers)
	c.mu.Unlock()

	if a.Servers.OK() {
		a.Clients = c.transact(x.ctx, s, limit, v.clientRequests(base), nil)
		c.mu.Lock()
		b.clients.note(b, v.clientIndex, from.members, &a.Clients)
		c.mu.Unlock()
	}
	c.mu.Lock()
	b.tests = append(b.tests, v)
	a.Index = len(b.tests)
	c.mu.Unlock()
	return a, stopped(x.ctx)
}

// serverRequests returns the node requests that add the test to its servers. base contains the fields that
// all requests share.
func (v *test) serverRequests(base message.TestRequest) []*nodeRequest {
	requests := make([]*nodeRequest, len(v.to.members))
	base.Loop = serverLoop(len(v.from.members), len(v.to.members), v.Distribute, v.Span, v.Concurrency)
	for k, m := range v.to.members {
		q := base
		requests[k] = &nodeRequest{member: m, request: &q, reply: new(message.TestReply)}
	}
	return requests
}

// clientRequests returns the node requests that add the test to its clients. Each request lists the servers
// of its client. base contains the fields that all requests share.
func (v *test) clientRequests(base message.TestRequest) []*nodeRequest {
	requests := make([]*nodeRequest, len(v.from.members))
	base.Loop, base.Client, base.Destinations = uint32(v.Loop), true, uint32(v.Span)
	for i, m := range v.from.members {
		q := base
		list := make([]message.Destination, 0, v.Span)
		for _, k := range servers(i, v.Distribute, v.Span, len(v.to.members)) {
			list = append(list, v.to.members[k].destination())
		}
		requests[i] = &nodeRequest{
			member: m, request: &q, reply: new(message.TestReply),
			bulk: message.AppendDestinations(nil, list, message.LittleEndian)[:v.Span*message.DestinationSize],
		}
	}
	return requests
}

// admit checks whether test t may be added to its batch now, and returns the batch and the groups. The caller
// holds c.mu.
func (s *session) admit(t *Test) (b *batch, from, to *group, err error) {
	b, from, to = s.batch(t.Batch), s.group(t.From), s.group(t.To)
	switch {
	case b == nil:
		return nil, nil, nil, notFound("batch", t.Batch)
	case b.running:
		return nil, nil, nil, refuse(syscall.EBUSY, "batch", t.Batch, "it is running")
	case len(b.tests) >= maxTests:
		return nil, nil, nil, refuse(syscall.ENOMEM, "batch", t.Batch, "at most %d tests are possible", maxTests)
	case from == nil:
		return nil, nil, nil, notFound("group", t.From)
	case to == nil:
		return nil, nil, nil, notFound("group", t.To)
	case t.Span > len(to.members):
		err = refuse(syscall.EINVAL, "test", string(t.Kind), "span %d is more than the %d nodes of the group", t.Span, len(to.members))
	case t.Kind == BulkTest && s.features&message.BulkLength == 0 && (t.BRW.Size%message.PageSize != 0 || t.BRW.Offset != 0):
		err = refuse(syscall.EINVAL, "test", string(t.Kind),
			"size %d, offset %d: the nodes of this session only support whole pages", t.BRW.Size, t.BRW.Offset)
	}
	for _, g := range []*group{from, to} {
		n := membersOf(g.members).Count
		switch {
		case err != nil:
		case n.Active == 0:
			err = refuse(syscall.EINVAL, "group", g.name, "none of its nodes is active")
		case n.Active < n.Total:
			err = refuse(syscall.ENETDOWN, "group", g.name, "%d of its %d nodes are not active", n.Total-n.Active, n.Total)
		}
	}
	return b, from, to, err
}
