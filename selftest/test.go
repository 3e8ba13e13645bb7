package selftest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// test is one test of a batch. A client test has slots with units, and a server test has request buffers.
type test struct {
	batch   *batch
	service message.Service
	client  bool
	buffers int // number of request buffers of a server test
	slots   []slot
	// spareUnits is the number of units in addition to the first unit of each slot.
	spareUnits int
	mu         sync.Mutex // guards unit.works and slot.working
	// latency holds recorders of RPC durations, each shared by several units. One recorder per unit would
	// need most of a unit's memory, and a single recorder for all would be a bottleneck.
	latency []latency.Recorder

	loop        uint32
	stopOnError bool
	op          uint32
	length      uint32
	check       message.Check

	active   atomic.Int32 // number of slots with working units
	stopping atomic.Bool
	aborting atomic.Bool
}

// maxRecorders is the maximum number of recorders of a test. Units with the same destination share a
// recorder, because their events mostly arrive in the same goroutine.
const maxRecorders = 4

// endless is the smallest loop count that means no end. Kernels see such counts as negative numbers.
const endless = 1 << 31

// addTest handles an add-test request (selftest 4.8). It is called twice for a client test: the first call
// starts to fetch the list of destinations and returns errNotFetched; the second call has the list. After any
// other error the agent must not reply.
func (a *Agent) addTest(in *inbound, q *message.TestRequest) (message.Status, error) {
	switch {
	case q.Loop == 0, q.Concurrency == 0, q.Concurrency > message.MaxConcurrency, q.Session.NID.IsAny(),
		q.Destinations > message.MaxDestinations, q.Client && q.Destinations == 0, !q.Tests.IsTest():
		return message.EINVAL, nil
	}
	s := a.session
	if !s.hasID(q.Session) {
		return message.ENOENT, nil
	}
	b := s.batches[q.Batch]
	if b != nil && b.running() {
		return message.EBUSY, nil
	}
	if s.tests >= a.config.MaxTests {
		return message.ENOMEM, nil
	}
	t := &test{service: q.Tests, client: q.Client, loop: q.Loop, stopOnError: q.StopOnError}
	if q.Client {
		if status, err := a.populate(in, t, q); status != message.OK || err != nil {
			return status, err
		}
	} else {
		t.buffers = a.config.buffers(q.Tests, q.Loop)
		a.server(t.service).Add(1)
		_ = a.tests.add(t.buffers) // fails only if the node is closed
	}
	if q.Tests == message.ServicePing && q.Client {
		a.pingSeq.Store(0)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b == nil {
		b = &batch{session: s, id: q.Batch}
		s.batches[q.Batch] = b
	}
	t.batch = b
	b.tests = append(b.tests, t)
	s.tests++
	return message.OK, nil
}

// unload ends a server test and its request buffers.
func (a *Agent) unload(t *test) {
	a.server(t.service).Add(-1)
	_ = a.tests.add(-t.buffers) // fails only if the node is closed
}

// populate creates the slots of a client test: as many as its concurrency for each destination.
func (a *Agent) populate(in *inbound, t *test, q *message.TestRequest) (message.Status, error) {
	n := int64(q.Destinations) * int64(q.Concurrency)
	if a.units.Load()+n > int64(a.config.MaxUnits) {
		return message.ENOMEM, nil
	}
	if in.list == nil {
		if a.fetching >= maxFetching {
			return message.ENOMEM, nil
		}
		a.fetchDestinations(in, q)
		return message.OK, errNotFetched
	}
	if err := in.list.err; err != nil {
		a.counters.Event(err)
		return message.OK, err
	}
	list := in.list.bytes
	if q.Tests == message.ServiceBRW {
		length, err := q.BRW.Bytes(q.Features)
		if err != nil {
			a.logSession("selftest: refused a test", q.Session, slog.Any("err", err))
			return message.EINVAL, nil
		}
		t.op, t.check, t.length = q.BRW.Op, message.Check(q.BRW.Flags), length
	}
	t.slots = make([]slot, n)
	t.latency = make([]latency.Recorder, min(int(q.Destinations), maxRecorders))
	for k := range int(q.Destinations) {
		d, ok := message.DecodeDestination(list, k, q.Order)
		to := lnet.ProcessID{NID: d.NID.NID(), PID: d.PID}
		if !ok || to.NID.IsAny() || to.NID.IsZero() || to.PID == 0 || to.PID == lnet.PIDAny {
			return message.EINVAL, nil
		}
		for c := range int(q.Concurrency) {
			p := &t.slots[k*int(q.Concurrency)+c]
			u := &p.first
			u.init(a, t, p, to)
			u.latency = &t.latency[k%len(t.latency)]
		}
	}
	a.units.Add(n)
	return message.OK, nil
}

// destinationList is the result of fetching a list of destinations.
type destinationList struct {
	bytes []byte
	err   error // set if the list could not be fetched
}

// errNotFetched means that the request is handled again when its list of destinations has been fetched.
var errNotFetched = errors.New("selftest: the destinations of the test have not been fetched yet")

// maxFetching is the maximum number of lists that are fetched at a time. Each may have up to 1 MiB.
const maxFetching = 16

// fetchDestinations starts a goroutine that fetches the list of a client test's destinations (selftest
// 2.3.3), for up to RPCTimeout, and then passes the request to the framework's goroutine again. The framework
// handles other requests during the fetch, so that a console that does not provide the list cannot keep
// others from querying or ending the session. Until the request is passed on, nothing else accesses it.
func (a *Agent) fetchDestinations(in *inbound, q *message.TestRequest) {
	a.fetching++
	in.awaitData()
	n, features, bits := int(q.Destinations), q.Features, q.BulkID
	a.fetches.Go(func() {
		list := new(destinationList)
		list.bytes, list.err = a.getDestinations(in, n, features, bits)
		in.dataArrived()
		in.list = list
		a.requests <- in // has room, because the request still counts as being served
	})
}

func (a *Agent) getDestinations(in *inbound, n int, f message.Features, bits uint64) ([]byte, error) {
	size := n * message.DestinationSize
	if f&message.BulkLength == 0 {
		size = message.DestinationsSize(n) // kernels offer whole blocks
	}
	b := make([]byte, size)
	ctx := a.ctx
	if a.config.RPCTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.config.RPCTimeout)
		defer cancel()
	}
	got, err := a.node.GetWait(ctx, b, in.from, node.GetOptions{
		Source: in.self, Portal: message.ReplyPortal, MatchBits: bits,
	})
	if err != nil {
		return nil, err
	}
	a.counters.BulkGet.Add(uint64(got))
	return b[:got], nil
}

// begin prepares all slots of the test for a run.
func (t *test) begin() {
	t.stopping.Store(false)
	t.aborting.Store(false)
	t.active.Store(int32(len(t.slots)))
	for k := range t.slots {
		t.slots[k].begin(t.loop)
	}
}

// stop ends each unit of the test after its current RPC. If force is set, it aborts these RPCs.
func (t *test) stop(force bool) {
	t.stopping.Store(true)
	if force {
		t.aborting.Store(true)
	}
	for k := range t.slots {
		p := &t.slots[k]
		p.first.stop(force)
		for _, u := range p.spareUnits {
			u.stop(force)
		}
	}
}

// slotEnded records that no unit of a slot is working any more. After the last slot, the test has ended.
func (t *test) slotEnded() {
	if t.active.Add(-1) > 0 {
		return
	}
	if b := t.batch; b.active.Add(-1) == 0 {
		b.session.release()
	}
}

// latencies returns the merged histogram of all recorders.
func (t *test) latencies() (h latency.Histogram) {
	for k := range t.latency {
		t.latency[k].AddTo(&h)
	}
	return h
}
