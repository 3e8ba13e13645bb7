package coretest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// The cases of group E of transport-tests: the life cycle of a TM.
var lifeCases = []scenario{
	{name: "T042_MalformedAddress", run: malformedAddress},
	{name: "T043_WrongPortal", run: wrongPortal},
	{name: "NoSuchAddress", run: noSuchAddress},
	{name: "T044_NotLocal", run: notLocal},
	{name: "T045_StopWithEmptyQueues", run: stopWithEmptyQueues},
	{name: "T046_Abort", run: abort},
	{name: "T047_Drain", run: drain},
	{name: "T049_ManyLives", run: manyLives},
	{name: "T050_Confine", run: confine},
	{name: "AddressInUse", run: addressInUse},
	{name: "StopBeforeStart", run: stopBeforeStart},
	{name: "StopWhileStarting", run: stopWhileStarting},
}

// malformedAddress checks that Start refuses a malformed address, without an event.
//
// transport-tests E (42)
func malformedAddress(s *stage) {
	m := s.prepare(s.domain(0))
	s.want("start", m.Start("invalid"), syscall.EINVAL)
	if m.State() != transport.StateFailed {
		s.t.Errorf("state %v", m.State())
	}
	s.want("start again", m.Start(s.address(0).String()), syscall.EINVAL)
	s.must(m.Close())
	m.closed = true
	if len(m.events) > 0 {
		s.t.Errorf("an event: %v", &m.events[0])
	}
}

// failsToStart starts a TM at address a and checks that Start succeeds but the TM then fails with want.
func (s *stage) failsToStart(a transport.Address, want error) {
	s.t.Helper()
	m := s.prepare(s.domain(0))
	s.must(m.Start(a.String()))
	m.states(transport.StateFailed, want)
	ctx, cancel := s.context()
	defer cancel()
	s.want("await the start", m.Await(ctx, transport.StateStarted), want)
	if m.Self() != nil {
		s.t.Errorf("%v has an end point of its own", a)
	}
	s.must(m.Close())
	m.closed = true
}

// wrongPortal checks that a TM at an invalid portal fails to start.
//
// transport-tests E (43)
// transport 3.16, 6.2 (2)
func wrongPortal(s *stage) {
	for _, p := range []uint32{99, 64, 0} {
		a := s.address(0)
		a.Portal = p
		s.failsToStart(a, syscall.EINVAL)
	}
}

// noSuchAddress checks, by calling the Core directly, that it refuses invalid addresses, whether they are in
// use or not.
//
// transport-tests B (11)
// transport 3.16, 6.2 (2), 6.3 (1)
func noSuchAddress(s *stage) {
	ctx, cancel := s.context()
	defer cancel()
	d, err := s.net.Hosts[0].Core.Open(ctx)
	s.must(err)
	good := s.address(0)
	for _, c := range []struct {
		portal uint32
		id     uint16
	}{{portal, 0}, {portal, transport.Dynamic + 1}, {portal, 1<<16 - 1}, {0, 1}, {0, transport.Dynamic}, {lnet.Portals, 1}, {1<<32 - 1, 1}} {
		a := good
		a.Portal, a.TMID = c.portal, c.id
		tm, err := d.StartTM(ctx, a, 1)
		s.want(fmt.Sprintf("start number %d at portal %d", c.id, c.portal), err, syscall.EINVAL)
		if tm != nil {
			s.t.Errorf("number %d is at portal %d", c.id, c.portal)
		}
	}
	s.must(d.Close())
}

// notLocal checks that a TM at a NID or PID of another host fails to start.
//
// transport-tests E (44)
// transport 3.16, 6.2 (1)
// r.M0.net.ib
func notLocal(s *stage) {
	a := s.address(0)
	a.PID = 42
	s.failsToStart(a, syscall.ENOENT)
	for _, text := range []string{"192.0.2.77@tcp", "192.0.2.77@o2ib1"} {
		nid, err := lnet.ParseNID(text)
		s.must(err)
		a := s.address(0)
		a.NID = nid
		s.failsToStart(a, syscall.ENOENT)
	}
}

// stopWithEmptyQueues starts and stops TMs at one address, and checks their states.
//
// transport-tests E (45)
func stopWithEmptyQueues(s *stage) {
	a := s.address(0)
	for range 3 {
		m := s.prepare(s.domain(0))
		s.must(m.Start(a.String()))
		m.states(transport.StateStarted, nil)
		if got := m.Self().Address(); got != a {
			s.t.Errorf("it is at %v, not %v", got, a)
		}
		s.must(m.Stop())
		m.states(transport.StateStopped, nil)
		s.must(m.Close())
		m.closed = true
		if m.State() != transport.StateUndefined {
			s.t.Errorf("state %v of a TM that is closed", m.State())
		}
	}
}

// addressInUse checks that an address that is in use on a host cannot be used in another domain of the host.
//
// transport 3.16, 6.3 (1), 6.3 (4)
func addressInUse(s *stage) {
	first := s.machine(0)
	s.failsToStart(first.Self().Address(), syscall.EADDRINUSE)
	other := first.Self().Address()
	other.Portal++
	s.prepare(s.domain(0)).start(other.String())
	again := first.Self().Address()
	first.close()
	s.prepare(s.domain(0)).start(again.String())
}

// abort checks that Abort cancels the queued buffers before the TM is stopped.
//
// transport-tests E (46)
// transport 3.5 stop
func abort(s *stage) {
	m := s.machine(0)
	m.states(transport.StateStarted, nil)
	queues := []transport.QueueType{transport.MsgRecv, transport.PassiveBulkRecv, transport.PassiveBulkSend}
	var buffers []*transport.Buffer
	for _, q := range queues {
		b := m.buffer(5000)
		b.Queue, b.Length, b.MinReceiveSize, b.MaxMessages = q, 5000, 5000, 1
		s.must(m.Add(b))
		buffers = append(buffers, b)
	}
	s.must(m.Abort())
	s.want("add to a TM that is stopping", m.Add(m.buffer(1)), syscall.EINVAL)
	m.states(transport.StateStopped, nil)
	s.mu.Lock()
	if m.total != 5 || len(m.events) != 3 {
		s.t.Errorf("%d events, of which %d were before the last state", m.total, len(m.events))
	}
	s.mu.Unlock()
	for k, b := range buffers {
		m.expectError(b, syscall.ECANCELED)
		m.stats(queues[k], 1, 1, 0, 1)
	}
}

// drain checks that a TM that was stopped with Stop still receives into its queued buffers.
//
// transport-tests E (47)
// transport 3.5 stop
func drain(s *stage) {
	a, b := s.pair()
	in, late := a.buffer(100), a.buffer(100)
	a.states(transport.StateStarted, nil)
	a.receive(in, 100, 1)
	a.receive(late, 100, 1)
	s.must(a.Stop())
	out := b.buffer(100)
	b.send(out, 50, a) // a TM that is stopping still receives
	a.expect(in)
	b.expect(out)
	if a.State() != transport.StateStopping {
		s.t.Errorf("state %v with a queued buffer", a.State())
	}
	a.cancel(late)
	a.states(transport.StateStopped, nil)
}

// manyLives starts and ends many TMs, and checks that no goroutines or files are left.
//
// transport-tests E (49)
func manyLives(s *stage) {
	d := s.domain(0)
	lives := 1000
	if s.h.Bubble == nil {
		lives = 300
	}
	a := s.address(0).String()
	live := func() {
		m := s.prepare(d)
		m.start(a)
		m.close()
		s.machines = s.machines[:len(s.machines)-1]
	}
	live()
	goroutines, files := runtime.NumGoroutine(), openFiles()
	for range lives {
		live()
	}
	if n := runtime.NumGoroutine(); n > goroutines+lives/2 {
		s.t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(); n > files+lives/2 {
		s.t.Errorf("%d open files, %d before", n, files)
	}
}

// openFiles returns the number of open files of the process.
func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// confine checks that the callbacks of a confined TM run on its processors.
//
// transport-tests E (50)
// transport 3.13 (1)
// r.M0.net.xprt.lnet.processor-affinity
func confine(s *stage) {
	d := s.domain(0)
	m := s.prepare(d)
	if !d.Limits().Confine {
		s.want("confine", m.Confine(0), syscall.ENOSYS)
		return
	}
	mine, err := affinity()
	s.must(err)
	processor := mine[0]
	s.must(m.Confine(processor, 1023)) // unavailable processors are ignored
	m.start(s.address(0).String())
	s.want("confine a TM that is started", m.Confine(processor), syscall.EINVAL)
	var seen []int
	m.then = func(*transport.BufferEvent) { seen, err = affinity() }
	b := m.buffer(100)
	m.receive(b, 100, 1)
	s.must(m.Abort())
	m.expectError(b, syscall.ECANCELED)
	ctx, cancel := s.context()
	defer cancel()
	s.must(m.Await(ctx, transport.StateStopped))
	s.must(err)
	if !slices.Equal(seen, []int{processor}) {
		s.t.Errorf("the callback ran on any of %v, not on %d", seen, processor)
	}

	m = s.prepare(d)
	s.must(m.Confine(1023))
	s.must(m.Start(s.address(0).String()))
	if e := m.take("a state", func(e *event) bool { return e.buffer == nil }); e.next != transport.StateFailed || e.err == nil {
		s.t.Errorf("confined to a processor that there is not: %v", &e)
	}
}

// stopBeforeStart checks that a TM can be stopped before it was started.
//
// transport 3.5 ours (1)
func stopBeforeStart(s *stage) {
	m := s.prepare(s.domain(0))
	s.must(m.Stop())
	m.states(transport.StateStopped, nil)
	s.want("start what is stopped", m.Start(s.address(0).String()), syscall.EINVAL)
}

// stopWhileStarting checks that a TM that is stopped during its start stops, whether the start succeeds or
// not, and releases its address.
//
// transport 3.5 ours (2)
func stopWhileStarting(s *stage) {
	d := s.domain(0)
	a := s.address(0).String()
	started := 0
	for i := range 100 {
		m := s.prepare(d)
		s.must(m.Start(a))
		for range i % 10 {
			runtime.Gosched()
		}
		if i%2 == 0 {
			s.must(m.Abort())
		} else {
			s.must(m.Stop())
		}
		isState := func(e *event) bool { return e.buffer == nil }
		e := m.take("a state", isState)
		if e.next == transport.StateStarted {
			started++
			e = m.take("another state", isState)
		}
		if e.next != transport.StateStopped || e.err != nil {
			s.t.Fatalf("after it was stopped: %v", &e)
		}
		m.close()
	}
	if started == 100 {
		s.t.Log("each TM had started before it was stopped")
	}
}
