package remote

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// reapUntilDown reaps the rest of a TM whose lnetd is gone: the completions in the ring, and then one with Down.
func reapUntilDown(t testing.TB, of *tm, want error, before int) error {
	t.Helper()
	for range before {
		if c := next(t, of); c.Down {
			t.Errorf("down before what was in the ring: %+v", c)
		}
	}
	c := next(t, of)
	if !c.Down || c.Token != nil || !errors.Is(c.Err, want) || !errors.Is(c.Err, syscall.EPIPE) {
		t.Errorf("%+v, not down by %v", c, want)
	}
	if of.Pending() || len(reap(of)) != 0 {
		t.Error("something comes behind the end")
	}
	waits := 0
	for until := time.Now().Add(2 * time.Millisecond); time.Now().Before(until); waits++ {
		of.Wait(until)
	}
	if waits > 10 {
		t.Errorf("who waits behind the end has been woken %d times", waits)
	}
	return c.Err
}

// lnetd ends while there is an idle TM, a TM in Wait, ops, completions, and requests. Everything can be
// ended afterwards.
//
// transport 3.5 ours (3), 9.10
func TestLnetdEnds(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	first, host := f.start(d)
	second, _ := f.start(d)
	b, memory := f.buffer(d, 100), make([][]byte, 0)
	idle := f.buffer(d, 100)
	for _, a := range d.store.areas {
		for _, p := range a.pieces {
			memory = append(memory, a.bytes[p.offset:p.offset+p.requested])
		}
	}
	recv := transport.Op{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 1, MaxMessages: 2}
	submit(t, first, recv)
	complete(t, host, shm.Completion{Generation: 7, Time: fakeNow, Length: 1}, shm.Completion{TM: true, Errno: syscall.ENOBUFS})
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) { return nil, h.Opcode != protocol.OpNop })
	var asking sync.WaitGroup
	for range 2 * protocol.MaxOutstanding { // half of which cannot even be sent
		asking.Go(func() {
			if _, err := d.NIDs(t.Context()); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("a request without a reply: %v", err)
			}
		})
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_ = reapUntilDown(t, second, syscall.EPIPE, 0)
	}()
	for f.count(protocol.OpNIDsGet) < protocol.MaxOutstanding {
		time.Sleep(time.Microsecond)
	}
	f.die()
	asking.Wait()
	<-waiting
	if err := reapUntilDown(t, first, syscall.EPIPE, 2); !strings.Contains(err.Error(), "without giving a reason") {
		t.Error(err)
	}
	op := transport.Op{Queue: transport.MsgSend, Buffer: idle, Length: 1, Peer: far}
	if n, err := first.Submit([]transport.Op{op}); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("submit: %d, %v", n, err)
	}
	if _, err := d.StartTM(t.Context(), transport.Address{NID: fakeNID, Portal: 34, TMID: 6}, 1); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("start: %v", err)
	}
	memory[0][0]++ // the memory still exists
	for what, err := range map[string]error{
		"stop": first.Stop(), "stop again": first.Stop(), "stop the other": second.Stop(),
		"deregister what has an op": b.Deregister(), "deregister": idle.Deregister(),
		"free": d.Free(memory[0]), "free the other": d.Free(memory[1]), "close": d.Close(),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s := f.core.Stats(); s.Submissions != 1 || s.Completions != 2 {
		t.Errorf("figures %+v", s)
	}
}

// lnetd ends between any two steps of a program: nothing hangs, and everything created can be ended.
//
// transport 3.5 ours (3), 9.10
func TestLnetdEndsAtEachRequest(t *testing.T) {
	for _, at := range []protocol.Opcode{
		protocol.OpAreaAdd, protocol.OpBufRegister, protocol.OpTMStart, protocol.OpTMStop, protocol.OpBufDeregister,
	} {
		f := newFake(t, Config{})
		f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
			if h.Opcode == at {
				f.die()
			}
			return nil, h.Opcode == at
		})
		before := files(t)
		d, err := f.core.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expect := func(o protocol.Opcode, err error) {
			t.Helper()
			if o >= at && !errors.Is(err, syscall.EPIPE) || o < at && err != nil {
				t.Errorf("gone at %v, %v: %v", at, o, err)
			}
		}
		memory, err := d.Alloc(t.Context(), 1)
		expect(protocol.OpAreaAdd, err)
		if memory != nil {
			b, err := d.Register(t.Context(), [][]byte{memory}, 1)
			expect(protocol.OpBufRegister, err)
			tm, errStart := d.StartTM(t.Context(), transport.Address{NID: fakeNID, Portal: 34, TMID: 5}, 1)
			if at != protocol.OpBufDeregister {
				expect(protocol.OpTMStart, errStart)
			}
			if tm != nil {
				if err := tm.Stop(); err != nil {
					t.Errorf("gone at %v, stop: %v", at, err)
				}
			}
			if b != nil {
				if err := b.Deregister(); err != nil {
					t.Errorf("gone at %v, deregister: %v", at, err)
				}
			}
			if err := d.Free(memory); err != nil {
				t.Errorf("gone at %v, free: %v", at, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Errorf("gone at %v, close: %v", at, err)
		}
		<-f.over
		if n := files(t); n > before {
			t.Errorf("gone at %v: %d files are open, %d before", at, n, before)
		}
	}
}

// The TM fails with the reason that lnetd has sent before it ended. An announced end is also a diagnostic.
//
// transport 9.9 (9), 9.10
func TestNotices(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	tm, _ := f.start(d)
	f.notify(protocol.Notice{Kind: 99, Text: "of a later version"})
	f.notify(protocol.Notice{Kind: protocol.NoticeLimits, Value: 64})
	f.notify(protocol.Notice{Kind: protocol.NoticeLimits, Value: 10})
	f.notify(protocol.Notice{Kind: protocol.NoticeGoingDown, Value: 5, Text: "upgrade"})
	if c := next(t, tm); c.Diagnostic != (GoingDown{5 * time.Second, "upgrade"}) || c.Err != nil || c.Down || c.Token != nil {
		t.Errorf("%+v", c)
	}
	if g := (GoingDown{5 * time.Second, "upgrade"}).String(); g != "lnetd ends in 5s: upgrade" {
		t.Error(g)
	}
	if n := d.Limits().DescriptorSize; n != 64 {
		t.Errorf("descriptors of %d bytes", n)
	}
	f.die()
	if err := reapUntilDown(t, tm, syscall.EPIPE, 0); !strings.Contains(err.Error(), "upgrade") {
		t.Error(err)
	}

	f = newFake(t, Config{})
	tm, _ = f.start(f.open())
	f.notify(protocol.CutOff(errors.Join(errors.New("ring of TM 5: too many"), syscall.EPROTO)))
	f.die()
	if err := reapUntilDown(t, tm, syscall.EPROTO, 0); !strings.Contains(err.Error(), "ring of TM 5") {
		t.Error(err)
	}
}

// Requests that lnetd no longer reads do not prevent the client from receiving the reason.
func TestReasonBehindAReset(t *testing.T) {
	f := newFake(t, Config{})
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
		if h.Opcode != protocol.OpNIDsGet {
			return nil, false
		}
		for f.core.Stats().Requests < 4 { // three more are being sent
			time.Sleep(time.Microsecond)
		}
		time.Sleep(time.Millisecond)
		f.notify(protocol.CutOff(syscall.EDQUOT))
		f.die()
		return nil, true
	})
	d := f.open()
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			if _, err := d.NIDs(t.Context()); !errors.Is(err, syscall.EDQUOT) {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}

// A client closes the connection to an lnetd that sends invalid records.
//
// transport 9.1, 9.2
func TestInvalidRecords(t *testing.T) {
	nids := protocol.Header{Opcode: protocol.OpNIDsGet, Sequence: 2}
	for name, c := range map[string]struct {
		record []byte
		fds    int
	}{
		"no record":      {record: []byte("hello")},
		"too long":       {record: make([]byte, protocol.MaxRecord+1)},
		"to nothing":     {record: must(t, &protocol.NIDsReply{}, protocol.Header{Opcode: protocol.OpNIDsGet, Sequence: 77})},
		"another opcode": {record: must(t, &protocol.Empty{}, protocol.Header{Opcode: protocol.OpAreaDel, Sequence: 2})},
		"another body":   {record: must(t, &protocol.Counters{}, nids)},
		"a descriptor":   {record: must(t, &protocol.NIDsReply{}, nids), fds: 1},
		"many of them":   {record: must(t, &protocol.NIDsReply{}, nids), fds: 20},
		"a notice":       {record: append(protocol.AppendNotice(nil, &protocol.Notice{Kind: protocol.NoticeLimits, Value: 1})[:24:24], 1)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, Config{})
			before := 0
			f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
				if h.Opcode != protocol.OpNIDsGet {
					return nil, false
				}
				var fds []int
				for range c.fds {
					fds = append(fds, mustFD(t))
				}
				f.send(c.record, fds...)
				closeAll(fds)
				return nil, true
			})
			d := f.open()
			before = files(t)
			if _, err := d.NIDs(t.Context()); !errors.Is(err, syscall.EPROTO) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("%v", err)
			}
			<-f.over
			d.connection.reader.Wait()
			if n := files(t); n > before {
				t.Errorf("%d files are open, %d before", n, before)
			}
			if _, err := d.NIDs(t.Context()); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("it goes on: %v", err)
			}
		})
	}
}

// Completions that match no op are dropped. Completions with invalid contents end the connection.
//
// transport 9.4
func TestInvalidCompletions(t *testing.T) {
	f := newFake(t, Config{Completions: 16})
	d := f.open()
	tm, host := f.start(d)
	other, _ := f.start(d)
	b := f.buffer(d, 100)
	submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: b, Sequence: 3})
	submit(t, other, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1), Sequence: 3})
	complete(t, host,
		shm.Completion{Buffer: 0, Generation: 6, Operation: 3, Final: true},
		shm.Completion{Buffer: 0, Generation: 7, Operation: 2, Final: true},
		shm.Completion{Buffer: 1, Generation: 7, Operation: 3, Final: true}, // of the other TM
		shm.Completion{Buffer: 9, Generation: 7, Operation: 3, Final: true},
		shm.Completion{Buffer: 1 << 31, Generation: 7, Operation: 3, Final: true},
		shm.Completion{TM: true},
		shm.Completion{Buffer: 0, Generation: 7, Operation: 3, Final: true, Length: 42},
		shm.Completion{Buffer: 0, Generation: 7, Operation: 3, Final: true}) // a duplicate
	if all := reap(tm); len(all) != 1 || all[0].Sequence != 3 || all[0].Length != 42 {
		t.Errorf("%+v", all)
	}
	if s := f.core.Stats(); s.Stale != 6 {
		t.Errorf("%d were dropped, not 6", s.Stale)
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_ = reapUntilDown(t, other, syscall.EPROTO, 0)
	}()
	for f.core.Stats().Sleeps == 0 {
		time.Sleep(time.Microsecond)
	}
	complete(t, host, shm.Completion{Errno: 5000})
	_ = reapUntilDown(t, tm, syscall.EPROTO, 0)
	<-waiting // although the ring still exists
}

// A stopped TM returns no more completions.
func TestCompletionsOfAStoppedTM(t *testing.T) {
	f := newFake(t, Config{})
	tm, _ := f.start(f.open())
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
	tm.reportGoingDown(GoingDown{})
	tm.markLost(syscall.EPIPE)
	if tm.Pending() || len(reap(tm)) > 0 {
		t.Error("something is pending")
	}
}

// If lnetd announces its end repeatedly, the last announcement is reported.
func TestGoingDownAgain(t *testing.T) {
	f := newFake(t, Config{})
	tm, _ := f.start(f.open())
	for i := range 3 {
		tm.reportGoingDown(GoingDown{In: time.Duration(i)})
	}
	got := reap(tm)
	if len(got) != 1 || got[0].Diagnostic != (GoingDown{In: 2}) {
		t.Errorf("told %+v", got)
	}
}

// If lnetd closes the socket that wakes the client before it closes the connection, the TM fails only when
// the connection ends.
func TestBellClosesFirst(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	tm, host := f.start(d)
	host.Shut()
	tm.Wake()
	tm.Wait(forever)
	tm.Wait(time.Now().Add(time.Millisecond))
	if tm.Pending() {
		t.Error("something is pending")
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_ = reapUntilDown(t, tm, syscall.EPIPE, 0)
	}()
	f.die()
	<-waiting
}

// A context that ends while all slots for requests are in use ends the wait for one.
func TestNoSlot(t *testing.T) {
	f := newFake(t, Config{})
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) { return nil, h.Opcode == protocol.OpNIDsGet })
	d := f.open()
	var results []chan error
	for range protocol.MaxOutstanding {
		end, result := begin(t, func(ctx context.Context) error { _, err := d.NIDs(ctx); return err })
		defer end()
		results = append(results, result)
	}
	for f.count(protocol.OpNIDsGet) < protocol.MaxOutstanding {
		time.Sleep(time.Microsecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.NIDs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	f.die()
	for _, result := range results {
		if err := <-result; !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
	}
}
