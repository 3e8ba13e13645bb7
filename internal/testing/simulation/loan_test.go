package simulation

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// machineStage is a world without nodes, with a transfer machine on each of two members. Tests construct
// events and call the machines' callbacks with them.
type machineStage struct {
	*world
	a, b *machine
}

func newMachineStage() *machineStage {
	q := &machineStage{world: newStage().world}
	q.fetches, q.served = map[bufferKey]int{}, map[bufferKey]int{}
	q.networkFaults, q.memberFaults = nil, nil // faultless
	machine := func(m *member) *machine {
		s := &transportLayer{life: &life{member: m, present: []bool{true}}}
		return &machine{
			machineSlot: &machineSlot{layer: s}, started: true,
			address: transport.Address{NID: m.nids[0], PID: lnet.PIDLustre, Portal: portalMachines, TMID: 1},
		}
	}
	q.a, q.b = machine(q.members[0]), machine(q.members[1])
	return q
}

// lend lends a buffer of n bytes to a machine, as if Add had been called.
func (q *machineStage) lend(m *machine, t transport.QueueType, n int) *loan {
	r := q.memory.region(n, 1)
	c := &trackedBuffer{layer: m.layer, region: r, buffer: transport.NewBuffer(r.pieces[0].Bytes), freeList: new([]*trackedBuffer)}
	c.buffer.Data = c
	c.buffer.MinReceiveSize, c.buffer.MaxMessages = messageMax, 1
	l := &loan{tracked: c, machine: m, queue: t, to: q.b.address.NID}
	l.begin()
	c.sum = r.sum()
	return l
}

// final returns the final event of a loan.
func final(l *loan, err error, n int) *transport.BufferEvent {
	return &transport.BufferEvent{Buffer: l.tracked.buffer, Queue: l.queue, Final: true, Err: err, Length: n, Time: time.Now()}
}

// The final event of a buffer may only have an error that earlier events allow.
func TestLoanMayFail(t *testing.T) {
	network := func(e syscall.Errno) error { return &inproc.Error{Errno: e, Err: errors.New("network")} }
	unmatched := &inproc.Error{Errno: syscall.EIO, Err: syscall.ENODATA}
	for _, c := range []struct {
		name   string
		queue  transport.QueueType
		err    error
		happen func(q *machineStage, l *loan)
		want   string // in the violation; empty: none
	}{
		{name: "sent", queue: transport.MsgSend},
		{name: "nobody has cancelled", queue: transport.MsgSend, err: syscall.ECANCELED, want: "was canceled"},
		{name: "cancelled", queue: transport.MsgSend, err: syscall.ECANCELED, happen: func(_ *machineStage, l *loan) { l.cancelled = true }},
		{name: "stopped", queue: transport.PassiveBulkRecv, err: syscall.ECANCELED, happen: func(_ *machineStage, l *loan) { l.machine.aborted = true }},
		{name: "the node closes", queue: transport.PassiveBulkRecv, err: syscall.ECANCELED, happen: func(_ *machineStage, l *loan) { l.machine.layer.life.ending = true }},
		{name: "no deadline", queue: transport.MsgSend, err: syscall.ETIMEDOUT, want: "nothing explains"},
		{name: "too early", queue: transport.MsgSend, err: syscall.ETIMEDOUT, happen: func(_ *machineStage, l *loan) { l.deadline = time.Now().Add(1) }, want: "nothing explains"},
		{name: "in time", queue: transport.MsgSend, err: syscall.ETIMEDOUT, happen: func(_ *machineStage, l *loan) { l.deadline = time.Now() }},
		{name: "the network has failed", queue: transport.MsgSend, err: network(syscall.EIO), happen: func(q *machineStage, _ *loan) { q.networkFaults = []Fault{FaultCut} }},
		{name: "but nothing was broken", queue: transport.MsgSend, err: network(syscall.EIO), want: "no faults"},
		{name: "over RDMA the passive buffer has gone", queue: transport.ActiveBulkRecv, err: unmatched, happen: func(q *machineStage, _ *loan) { q.verbs.rails = []bool{true} }},
		{name: "over TCP nobody tells of that", queue: transport.ActiveBulkRecv, err: unmatched, happen: func(q *machineStage, _ *loan) { q.verbs.rails = nil }, want: "no faults"},
		{name: "the network says what it cannot", queue: transport.MsgSend, err: network(syscall.EPERM), happen: func(q *machineStage, _ *loan) { q.networkFaults = []Fault{FaultCut} }, want: "errno"},
		{name: "the NI is gone", queue: transport.MsgSend, err: network(syscall.EINVAL), happen: func(q *machineStage, l *loan) {
			q.networkFaults = []Fault{FaultCut}
			l.machine.layer.life.present[0] = false
		}},
		{name: "given up too early", queue: transport.ActiveBulkRecv, err: syscall.ETIMEDOUT, want: "nothing explains"},
		{name: "given up", queue: transport.ActiveBulkRecv, err: syscall.ETIMEDOUT, happen: func(q *machineStage, _ *loan) { time.Sleep(q.transaction) }},
		{name: "no such error", queue: transport.MsgRecv, err: syscall.ENOMEM, want: "nothing explains"},
		{name: "late", queue: transport.MsgSend, happen: func(_ *machineStage, l *loan) { time.Sleep(l.endBy + 1) }, want: "late"},
		{name: "over", queue: transport.MsgSend, happen: func(_ *machineStage, l *loan) { l.machine.over = true }, want: "after the end of the machine"},
		{name: "again", queue: transport.MsgSend, happen: func(q *machineStage, l *loan) { q.a.processEvent(final(l, nil, 0)) }, want: "not lent"},
		{name: "another queue", queue: transport.MsgSend, happen: func(_ *machineStage, l *loan) { l.queue = transport.MsgRecv }, want: "not lent"},
		{name: "bytes of a failure", queue: transport.PassiveBulkRecv, err: syscall.ECANCELED, happen: func(_ *machineStage, l *loan) { l.cancelled, l.wanted = true, 1 }, want: "but also a length"},
		{name: "what was sent has changed", queue: transport.ActiveBulkSend, happen: func(_ *machineStage, l *loan) {
			l.payload = new(payload)
			l.tracked.region.pieces[0].Bytes[0]++
		}, want: "has changed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newMachineStage()
			l := q.lend(q.a, c.queue, 64)
			e := final(l, c.err, 0)
			if c.happen != nil {
				c.happen(q, l)
			}
			e.Length, e.Time = l.wanted, time.Now()
			q.a.processEvent(e)
			got := strings.Join(q.result.Failures, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
}

// A message arrives once, unchanged, at the right machine.
func TestMessageArrives(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(q *machineStage, x *message, l *loan)
		want   string
	}{
		{name: "well", want: "from"}, // a test cannot create an end point
		{name: "twice", happen: func(_ *machineStage, x *message, _ *loan) { x.received++ }, want: "again"},
		{name: "too long", happen: func(_ *machineStage, x *message, _ *loan) { x.never = true }, want: "too long"},
		{name: "another's", happen: func(_ *machineStage, x *message, _ *loan) { x.to.TMID++ }, want: "another's"},
		{name: "another byte", happen: func(_ *machineStage, _ *message, l *loan) { l.tracked.region.pieces[0].Bytes[99]++ }, want: "no machine has sent"},
		{name: "another number", happen: func(_ *machineStage, _ *message, l *loan) { l.tracked.region.pieces[0].Bytes[0]++ }, want: "no machine has sent"},
		{name: "over another", happen: func(_ *machineStage, x *message, l *loan) {
			l.taken = append(l.taken, delivery{span{99, 1}, x})
			l.tracked.buffer.MaxMessages++
		}, want: "where one is"},
		{name: "came back too early", happen: func(_ *machineStage, _ *message, l *loan) { l.tracked.buffer.MaxMessages = 2 }, want: "came back"},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newMachineStage()
			x := q.newMessage(message{from: q.a.address, to: q.b.address, sender: q.members[0], receiver: q.members[1]}, 100, nil)
			l := q.lend(q.b, transport.MsgRecv, 4*messageMax)
			l.tracked.buffer.CopyIn(0, x.content)
			if c.happen != nil {
				c.happen(q, x, l)
			}
			q.b.processEvent(final(l, nil, 100))
			if got := strings.Join(q.result.Failures, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
}

// Fetched data must be the requested data, except in a life that reuses the handles of another.
func TestPayloadFetched(t *testing.T) {
	key := bufferKey{portal: portalMachines, bits: 1}
	for _, c := range []struct {
		name   string
		happen func(q *machineStage, l *loan, g *payload)
		want   string
	}{
		{name: "well"},
		{name: "another's", happen: func(_ *machineStage, _ *loan, g *payload) { g.key.bits++ }, want: "did not ask"},
		{name: "what was to be sent", happen: func(_ *machineStage, _ *loan, g *payload) { g.passive = false }, want: "did not ask"},
		{name: "too little", happen: func(_ *machineStage, l *loan, _ *payload) { l.wanted++ }, want: "not 33"},
		{name: "another byte", happen: func(_ *machineStage, l *loan, _ *payload) { l.tracked.region.pieces[0].Bytes[31]++ }, want: "not stream"},
		{name: "too much", happen: func(_ *machineStage, l *loan, _ *payload) { l.tracked.region.pieces[0].Bytes[32]++ }, want: "written to"},
		{name: "of a former life", happen: func(q *machineStage, _ *loan, g *payload) {
			g.key.bits++
			q.b.layer.life.restart = restartSameIncarnation
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newMachineStage()
			g := q.newPayload(32, true, key)
			l := q.lend(q.b, transport.ActiveBulkRecv, 64)
			l.wanted, l.key = 32, key
			g.stream.fill(l.tracked.region.pieces[0].Bytes[:32], 0)
			if c.happen != nil {
				c.happen(q, l, g)
			}
			q.b.processEvent(final(l, nil, 32))
			got := strings.Join(q.result.Failures, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
}

// A machine's statistics must agree with the checker's.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(m *machine)
		want   int
	}{
		{name: "well", happen: func(*machine) {}},
		{name: "runs yet", happen: func(m *machine) { m.over = false }, want: 1},
		{name: "a buffer is lent", happen: func(m *machine) { m.loans++ }, want: 1},
		{name: "an end point is held", happen: func(m *machine) { m.endPoints++ }, want: 1},
		{name: "an add", happen: func(m *machine) { m.stats[transport.MsgSend].Adds++ }, want: 1},
		{name: "a final event", happen: func(m *machine) { m.finals[transport.MsgSend]++ }, want: 1},
		{name: "a success", happen: func(m *machine) { m.stats[transport.MsgSend].Successes++ }, want: 1},
		{name: "a failure", happen: func(m *machine) { m.stats[transport.MsgSend].Failures++ }, want: 1},
		{name: "a cancel", happen: func(m *machine) { m.stats[transport.MsgSend].Cancels++ }, want: 1},
		{name: "a byte", happen: func(m *machine) { m.stats[transport.MsgSend].Bytes++ }, want: 1},
		{name: "messages that were broken off", happen: func(m *machine) { m.stats[transport.MsgRecv].Failures++ }},
	} {
		q := newMachineStage()
		q.a.over = true
		c.happen(q.a)
		q.a.checkStats()
		if q.failures != c.want {
			t.Errorf("%s: %v", c.name, q.result.Failures)
		}
	}
}
