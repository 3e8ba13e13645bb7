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
		{transport.Op{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 1, MaxMessages: 1000}, syscall.ENOBUFS},
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

// A ring has room for the completions that StartTM was given, and for those in Config.
//
// transport 9.5
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		completions, config int
		want                uint32
	}{{1, 1, 1}, {2, 1, 2}, {32, 1, 33}, {32, 1024, 1024}, {1016, 1024, 1024}, {1017, 1024, 1025}, {16376, 1, 8193}} {
		got, err := entriesFor(c.completions, c.config)
		credits := protocol.Credits(protocol.Granted(got))
		if err != nil || got < c.want || int(credits) < c.completions || protocol.Granted(got) != protocol.Granted(c.want) {
			t.Errorf("%d of %d: %d, %v, not %d", c.completions, c.config, got, err, c.want)
		}
	}
	if _, err := entriesFor(16377, 1); !errors.Is(err, syscall.ENOBUFS) {
		t.Errorf("more than any ring has: %v", err)
	}
}

// lnetd determines the number of credits. If there are fewer than StartTM needs, the TM is stopped.
//
// transport 9.2, 9.5
func TestCreditsAreThoseOfTheReply(t *testing.T) {
	f := newFake(t, Config{Completions: 64})
	f.mu.Lock()
	f.fewer = 6
	f.mu.Unlock()
	d := f.open()
	tm, _ := f.start(d)
	if err := tm.Grow(50); tm.credits != 50 || err != nil {
		t.Errorf("%d credits, %v", tm.credits, err)
	}
	if err := tm.Grow(51); !errors.Is(err, syscall.ENOBUFS) {
		t.Errorf("one more: %v", err)
	}
	before := files(t)
	_, err := d.StartTM(t.Context(), transport.Address{NID: fakeNID, PID: lnet.PIDLustre, Portal: 34, TMID: 6}, 56)
	if !errors.Is(err, syscall.ENOBUFS) || f.count(protocol.OpTMStop) != 1 || files(t) != before {
		t.Errorf("%v, %d times TM_STOP, %d files, not %d", err, f.count(protocol.OpTMStop), files(t), before)
	}
}

// The final completion releases the credits, not an earlier one. Ops are refused if the ring has no room
// for their completions.
//
// transport 9.5
func TestCredits(t *testing.T) {
	f := newFake(t, Config{Completions: 8})
	d := f.open()
	tm, host := f.start(d)
	full := transport.Op{Queue: transport.MsgRecv, Buffer: f.buffer(d, 100), MinReceiveSize: 1, MaxMessages: tm.credits}
	one := transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 100)}
	for k := range uint32(3) {
		full.Sequence = k
		submit(t, tm, full)
		message := shm.Completion{Generation: 7, Operation: k, Time: fakeNow}
		complete(t, host, message, message)
		if n := len(reap(tm)); n != 2 {
			t.Errorf("%d messages", n)
		}
		if _, err := tm.Submit([]transport.Op{one}); !errors.Is(err, syscall.ENOBUFS) {
			t.Errorf("round %d, one more: %v", k, err)
		}
		message.Final = true
		complete(t, host, message)
		reap(tm)
	}
	submit(t, tm, one)
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

// The submission ring is never full if credits are respected. For each buffer with an op, the cancellation
// of the previous op, the op, and its cancellation may be unread.
//
// transport 9.5
func TestTheRingHasRoomForCancels(t *testing.T) {
	f := newFake(t, Config{Completions: 16})
	d := f.open()
	tm, host := f.start(d)
	var all []*buffer
	for range tm.credits {
		all = append(all, f.buffer(d, 1))
	}
	for _, b := range all {
		submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: b})
	}
	taken(t, host)
	for k, b := range all {
		submit(t, tm, transport.Op{Cancel: true, Buffer: b})
		complete(t, host, shm.Completion{Buffer: uint32(k), Generation: 7, Final: true})
		reap(tm)
		submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: b, Sequence: 1})
		submit(t, tm, transport.Op{Cancel: true, Buffer: b, Sequence: 1})
	}
	if got := taken(t, host); len(got) != 3*len(all) {
		t.Errorf("%d entries for %d buffers", len(got), len(all))
	}
}

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
