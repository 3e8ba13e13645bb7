package remote

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// far is the address of a peer.
var far = transport.Address{NID: mustNID("fd00::1@tcp"), PID: lnet.PIDLustre, Portal: 35, TMID: 77}

// Each op becomes an entry, and each of lnetd's entries a completion.
//
// transport 9.4
func TestEntries(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	tm, host := f.start(d)
	ops := []transport.Op{
		{Queue: transport.MsgRecv, MinReceiveSize: 10, MaxMessages: 3},
		{Queue: transport.MsgSend, Length: 11, Peer: far},
		{Queue: transport.PassiveBulkRecv, MatchBits: 12},
		{Queue: transport.PassiveBulkSend, Length: 13, MatchBits: 14},
		{Queue: transport.ActiveBulkRecv, Length: 15, MatchBits: 16, Peer: far},
		{Queue: transport.ActiveBulkSend, Length: 17, MatchBits: 18, Peer: far},
	}
	want := []shm.Submission{
		{Opcode: shm.OpMsgRecv, MinReceive: 10, MaxMessages: 3},
		{Opcode: shm.OpMsgSend, Length: 11},
		{Opcode: shm.OpPassiveRecv, MatchBits: 12},
		{Opcode: shm.OpPassiveSend, Length: 13, MatchBits: 14},
		{Opcode: shm.OpActiveRecv, Length: 15, MatchBits: 16},
		{Opcode: shm.OpActiveSend, Length: 17, MatchBits: 18},
	}
	var completions []shm.Completion
	for k := range ops {
		ops[k].Buffer, ops[k].Sequence = f.buffer(d, 100), uint32(90+k)
		want[k].Buffer, want[k].Generation, want[k].Operation, want[k].More = uint32(k), 7, uint32(90+k), k < 5
		if ops[k].Peer != (transport.Address{}) {
			want[k].Peer, want[k].PID, want[k].Portal, want[k].TMID = far.NID, far.PID, far.Portal, uint32(far.TMID)
		}
		completions = append(completions, shm.Completion{Buffer: uint32(k), Generation: 7, Operation: uint32(90 + k), Final: true, Time: fakeNow})
	}
	submit(t, tm, ops...)
	if got := taken(t, host); !slices.Equal(got, want) {
		t.Errorf("entries\n%+v, not\n%+v", got, want)
	}
	message := completions[0]
	message.Final, message.Length, message.Offset = false, 5, 20
	message.Sender, message.PID, message.Portal, message.TMID = far.NID, far.PID, uint16(far.Portal), far.TMID
	completions[1].Errno = syscall.EHOSTUNREACH
	completions[2].Errno, completions[2].Rejected = syscall.ENOSPC, true
	complete(t, host, append([]shm.Completion{message, {TM: true, Errno: syscall.ENOBUFS, Time: fakeNow}}, completions...)...)
	got := reap(tm)
	if len(got) != 8 || tm.Pending() {
		t.Fatalf("completions %+v", got)
	}
	first := got[0]
	first.Token, first.Time = nil, time.Time{}
	if first != (transport.Completion{Sequence: 90, Length: 5, Offset: 20, Sender: far}) {
		t.Errorf("a message: %+v", got[0])
	}
	if c := got[1]; c.Token != nil || !errors.Is(c.Err, syscall.ENOBUFS) || c.Down {
		t.Errorf("of the TM: %+v", c)
	}
	errs := []error{nil, syscall.EHOSTUNREACH, syscall.ENOSPC, nil, nil, nil}
	for k, c := range got[2:] {
		if *c.Token.(*int) != k || c.Sequence != uint32(90+k) || !c.Final || !errors.Is(c.Err, errs[k]) {
			t.Errorf("completion %d: %+v, not %v", k, c, errs[k])
		}
		if since := time.Since(c.Time); since < 0 || since > time.Minute {
			t.Errorf("completion %d is of %v", k, c.Time)
		}
	}
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
	if s := f.core.Stats(); s.Submissions != 6 || s.Completions != 8 || s.Stale != 0 {
		t.Errorf("figures %+v", s)
	}
}

// Invalid ops are refused, and those before them are accepted.
func TestRefusals(t *testing.T) {
	f := newFake(t, Config{Completions: 8})
	d := f.open()
	tm, host := f.start(d)
	b, gone := f.buffer(d, 100), f.buffer(d, 100)
	if err := gone.Deregister(); err != nil {
		t.Fatal(err)
	}
	good := transport.Op{Queue: transport.MsgSend, Buffer: b, Length: 1, Peer: far}
	for _, c := range []struct {
		op   transport.Op
		want error
	}{
		{transport.Op{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 101, MaxMessages: 1}, syscall.EINVAL},
		{transport.Op{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 0, MaxMessages: 1}, syscall.EINVAL},
		{transport.Op{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 1}, syscall.EINVAL},
		{transport.Op{Queue: transport.MsgSend, Buffer: b, Length: 101, Peer: far}, syscall.EINVAL},
		{transport.Op{Queue: transport.PassiveBulkSend, Buffer: b}, syscall.EINVAL},
		{transport.Op{Queue: transport.ActiveBulkRecv, Buffer: b, Length: 101, Peer: far}, syscall.EINVAL},
		{transport.Op{Queue: transport.QueueTypes, Buffer: b}, syscall.EINVAL},
		{transport.Op{Queue: transport.MsgSend, Buffer: gone, Length: 1, Peer: far}, syscall.EINVAL},
		{transport.Op{Queue: transport.MsgSend, Length: 1, Peer: far}, syscall.EINVAL},
		{good, syscall.EBUSY},
	} {
		ops := []transport.Op{c.op}
		if errors.Is(c.want, syscall.EBUSY) {
			ops = []transport.Op{good, c.op}
		}
		n, err := tm.Submit(ops)
		if n != len(ops)-1 || !errors.Is(err, c.want) {
			t.Errorf("%+v: taken %d, %v", c.op, n, err)
		}
	}
	for _, cancel := range []*buffer{b, gone} { // of ops that have ended
		submit(t, tm, transport.Op{Cancel: true, Buffer: cancel, Sequence: 5})
	}
	if got := taken(t, host); len(got) != 1 {
		t.Errorf("entries %+v", got)
	}
	for n, want := range map[int]error{1: nil, 28: nil, 29: syscall.ENOBUFS} { // StartTM was given 32
		if err := tm.Grow(n); n <= 28 && err != nil || n > 64 && !errors.Is(err, want) {
			t.Errorf("grow to %d: %v", n, err)
		}
	}
	if err := tm.Grow(1 << 20); !errors.Is(err, syscall.ENOBUFS) {
		t.Errorf("grow beyond the ring: %v", err)
	}
}

// The TMs of a domain share lnetd's quota of completion entries: for the entries of their rings, and for the
// completions that they may still get. A TM that does not fit is stopped. A stopped TM needs no room.
//
// transport 9.5
func TestQuotaOfEvents(t *testing.T) {
	f := newFake(t, Config{Completions: 64})
	d := f.open()
	first, _ := f.start(d)
	const all = 1 << 16
	if err := first.Grow(all - 64 + 1); !errors.Is(err, syscall.ENOBUFS) {
		t.Errorf("one too many: %v", err)
	}
	for range 2 {
		if err := first.Grow(all - 64); err != nil {
			t.Error(err)
		}
	}
	at := transport.Address{NID: fakeNID, PID: lnet.PIDLustre, Portal: 34, TMID: 6}
	before := files(t)
	if _, err := d.StartTM(t.Context(), at, 1); !errors.Is(err, syscall.ENOBUFS) || f.count(protocol.OpTMStop) != 1 || files(t) != before {
		t.Errorf("%v, %d times TM_STOP, %d files, not %d", err, f.count(protocol.OpTMStop), files(t), before)
	}
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	if err := first.Grow(all); err != nil {
		t.Errorf("a stopped TM: %v", err)
	}
	second, err := d.StartTM(t.Context(), at, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second.Grow(all-64), second.Stop()); err != nil {
		t.Error(err)
	}
}

// Any number of ops may be in progress. Submissions for which the ring has no room wait, and reach lnetd in
// their order when it has read others. Flush waits for all of them.
//
// transport 9.5
func TestFullSubmissionRing(t *testing.T) {
	f := newFake(t, Config{Completions: 2}) // 8 submissions
	d := f.open()
	tm, host := f.start(d)
	const ops = 30
	var all []*buffer
	for range ops {
		all = append(all, f.buffer(d, 1))
	}
	for _, b := range all {
		submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: b})
	}
	submit(t, tm, transport.Op{Cancel: true, Buffer: all[ops-1]})
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		tm.Flush(time.Time{})
	}()
	var got []shm.Submission
	for end := time.Now().Add(time.Minute); len(got) <= ops && time.Now().Before(end); runtime.Gosched() {
		select {
		case <-flushed:
			t.Fatalf("Flush returned after %d submissions", len(got))
		default:
		}
		got = append(got, taken(t, host)...)
	}
	for i := range ops {
		if got[i].Opcode != shm.OpPassiveRecv || got[i].Buffer != all[i].index {
			t.Fatalf("submission %d: %+v", i, got[i])
		}
	}
	if got[ops].Opcode != shm.OpCancel {
		t.Errorf("%+v", got[ops])
	}
	if host.Submissions.MarkPosted() {
		host.Submissions.WakePosted()
	}
	<-flushed
}

// A TM that ends while submissions wait for room drops them.
func TestEndWithFullSubmissionRing(t *testing.T) {
	f := newFake(t, Config{Completions: 2})
	d := f.open()
	tm, _ := f.start(d)
	for range 20 {
		submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
	}
	d.connection.fail(syscall.EIO)
	if c := next(t, tm); !c.Down {
		t.Errorf("%+v", c)
	}
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
	d.timers.Wait()
}

// A cancellation of an op in progress becomes one entry in the submission ring. Further cancellations of this
// op, and cancellations of other or ended ops, become none.
//
// transport 6.10, 9.4
func TestCancel(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	tm, host := f.start(d)
	other := transport.Address{NID: fakeNID, PID: lnet.PIDLustre, Portal: 34, TMID: transport.Dynamic}
	second, err := d.StartTM(t.Context(), other, 1)
	if err != nil || second.Address().TMID != transport.MaxTMID {
		t.Fatalf("%+v, %v", second.Address(), err)
	}
	b := f.buffer(d, 100)
	cancel := func(seq uint32) transport.Op { return transport.Op{Cancel: true, Buffer: b, Sequence: seq} }
	submit(t, tm, cancel(1), transport.Op{Queue: transport.PassiveBulkRecv, Buffer: b, Sequence: 1}, cancel(0), cancel(1), cancel(1), cancel(2))
	submit(t, second.(*transferMachine), cancel(1))
	got := taken(t, host)
	if len(got) != 2 || got[1] != (shm.Submission{Opcode: shm.OpCancel, More: true, Generation: 7, Operation: 1}) {
		t.Errorf("entries %+v", got)
	}
	if err := b.Deregister(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("deregister with an op: %v", err)
	}
	if err := tm.Stop(); !errors.Is(err, syscall.EBUSY) || f.count(protocol.OpTMStop) > 0 {
		t.Errorf("stop with an op: %v", err)
	}
	complete(t, host, shm.Completion{Generation: 7, Operation: 1, Errno: syscall.ECANCELED, Final: true})
	if c := next(t, tm); !errors.Is(c.Err, syscall.ECANCELED) || !c.Final {
		t.Errorf("%+v", c)
	}
	submit(t, tm, cancel(1))
	if got := taken(t, host); len(got) != 0 {
		t.Errorf("entries %+v", got)
	}
	for range 2 {
		if err := errors.Join(tm.Stop(), second.Stop()); err != nil {
			t.Error(err)
		}
	}
	if n, err := tm.Submit([]transport.Op{cancel(1)}); n != 0 || !errors.Is(err, syscall.ESHUTDOWN) {
		t.Errorf("a stopped TM: taken %d, %v", n, err)
	}
}

type transferMachine = tm

// Calls of Pending, Reap, Wait, Wake and Submit during and after Stop have no effect, and do not access
// unmapped memory.
func TestStopDuringOtherCalls(t *testing.T) {
	f := newFake(t, Config{Completions: 2})
	d := f.open()
	b := f.buffer(d, 1)
	for k := range 10 {
		tm, _ := f.start(d)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		busy := func(f func()) {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						f()
					}
				}
			})
		}
		busy(func() { tm.Pending() })
		busy(func() { tm.Reap(make([]transport.Completion, 1)) })
		busy(func() { tm.Wait(time.Now().Add(time.Millisecond)) })
		busy(tm.Wake)
		busy(func() { _, _ = tm.Submit([]transport.Op{{Cancel: true, Buffer: b}}) })
		busy(func() { f.core.Stats() })
		for range k {
			runtime.Gosched()
		}
		if err := tm.Stop(); err != nil {
			t.Error(err)
		}
		if tm.Pending() || tm.Reap(make([]transport.Completion, 1)) != 0 {
			t.Error("a completion of a stopped TM")
		}
		close(stop)
		wg.Wait()
	}
}
