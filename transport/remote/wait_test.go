package remote

import (
	"runtime"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// echo completes each op of a TM immediately until stop is called. It polls, or sleeps in between.
func echo(t testing.TB, host *shm.Host, polling bool) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			all := taken(t, host)
			for _, s := range all {
				if _, err := host.Completions.Put(&shm.Completion{
					Buffer: s.Buffer, Generation: s.Generation, Operation: s.Operation, Final: true, Time: fakeNow,
				}); err != nil {
					t.Error(err)
				}
			}
			host.Completions.Publish()
			if len(all) > 0 {
				host.Completions.Ring()
			}
			select {
			case <-quit:
				return
			default:
			}
			if polling {
				runtime.Gosched()
			} else if host.Submissions.Wait(forever) != nil {
				return
			}
		}
	}()
	return func() {
		close(quit)
		host.Submissions.Wake()
		<-done
	}
}

// rounds submits batches and waits for their completions.
func rounds(t testing.TB, tm *tm, all []*buffer, n int) {
	t.Helper()
	ops := make([]transport.Op, len(all))
	var c [128]transport.Completion
	for k := range n {
		for i, b := range all {
			ops[i] = transport.Op{Queue: transport.MsgSend, Buffer: b, Sequence: uint32(k), Length: 1, Peer: far}
		}
		submit(t, tm, ops...)
		for left := len(all); left > 0; left -= tm.Reap(c[:]) {
			tm.Wait(forever)
		}
	}
}

// With 10,000 ops in batches of 100, each batch wakes lnetd at most once, even if lnetd sleeps each time.
// lnetd wakes a client at most once for each of the client's sleeps. No requests are sent. An lnetd that polls is
// never woken.
//
// transport-tests P (124)
// transport 9.6 (1), 9.7
// r.M0.net.xprt.lnet.user.min-syscalls
func TestFewSystemCalls(t *testing.T) {
	for _, polling := range []bool{false, true} {
		c := Config{PollTime: -1}
		if polling {
			c.PollTime = time.Hour
		}
		f := newFake(t, c)
		d := f.open()
		tm, host := f.start(d)
		var all []*buffer
		for range 100 {
			all = append(all, f.buffer(d, 1))
		}
		before := f.core.Stats()
		stop := echo(t, host, polling)
		rounds(t, tm, all, 100)
		stop()
		s := f.core.Stats()
		host1, host2 := host.Submissions.Stats(), host.Completions.Stats()
		if s.Submissions != 10_000 || s.Completions != 10_000 || host1.Released != 10_000 || host2.Put != 10_000 {
			t.Errorf("figures %+v", s)
		}
		if s.BellWrites > 100 || polling && s.BellWrites != 0 {
			t.Errorf("polling %v: the client has written to the bell %d times", polling, s.BellWrites)
		}
		if s.Requests != before.Requests {
			t.Errorf("%d requests in steady traffic", s.Requests-before.Requests)
		}
		if host2.Wakeups > s.Sleeps {
			t.Errorf("polling %v: lnetd has written to the bell %d times, the client has slept %d times", polling, host2.Wakeups, s.Sleeps)
		}
		want := HostStats{host1.Released, host2.Put, host2.Wakeups, host1.Reads, host1.Sleeps}
		if s.Host != want {
			t.Errorf("of lnetd: %+v, not %+v", s.Host, want)
		}
	}
}

// A completion, Wake, and the deadline end Wait, and nothing else does. A Wake before the Wait ends the next
// Wait.
func TestWait(t *testing.T) {
	for _, poll := range []time.Duration{-1, 0, time.Hour} {
		f := newFake(t, Config{PollTime: poll})
		d := f.open()
		tm, host := f.start(d)
		b := f.buffer(d, 1)
		tm.Wake()
		tm.Wait(forever)
		for range 100 {
			begun := make(chan struct{})
			go func() {
				<-begun
				tm.Wake()
			}()
			close(begun)
			tm.Wait(forever)
		}
		for tm.Wait(time.Now().Add(-time.Second)); tm.Pending(); {
			t.Fatal("something is pending")
		}
		until := time.Now().Add(5 * time.Millisecond)
		for tries := 0; time.Now().Before(until); tries++ {
			if tm.Wait(until); tries > 10 {
				t.Fatal("it wakes up for nothing")
			}
		}
		sequences, completed := make(chan uint32), make(chan struct{})
		go func() {
			defer close(completed)
			for k := range sequences {
				complete(t, host, shm.Completion{Generation: 7, Operation: k, Final: true})
			}
		}()
		for k := range uint32(100) {
			submit(t, tm, transport.Op{Queue: transport.MsgSend, Buffer: b, Sequence: k, Length: 1, Peer: far})
			sequences <- k
			if c := next(t, tm); c.Sequence != k {
				t.Fatalf("%+v", c)
			}
		}
		close(sequences)
		<-completed
	}
}

// A TM sleeps on its flag only if lnetd has FUTEX, and there is room for a sleeping goroutine. In both cases each
// completion wakes it, and so does Wake.
//
// transport 9.6 (1), 9.11
func TestSleepOnFlag(t *testing.T) {
	for name, missing := range map[string]protocol.Features{"this lnetd": 0, "an older lnetd": protocol.FeatFutex} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, Config{PollTime: -1})
			f.answers(func(h protocol.Header, r protocol.Request) ([]byte, bool) {
				hello, ok := r.(*protocol.Hello)
				if !ok {
					return nil, false
				}
				hello.Wanted &^= missing
				return must(t, helloReply(hello), h), true
			})
			tm, host := f.start(f.open())
			for range 100 {
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					tm.Wait(forever)
				}()
				for host.Completions.Claim() == 0 { // until it is asleep
					runtime.Gosched()
				}
				tm.Wake()
				<-returned
			}
			if n := tm.ring.Completions.WaitStats().WordSleeps; n > 0 && missing != 0 || n == 0 && missing == 0 && runtime.GOMAXPROCS(0) > 1 {
				t.Errorf("slept %d times on the flag", n)
			}
		})
	}
}
