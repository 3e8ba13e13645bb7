package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given a server that answers, when calls without bulk, with a sink and with a source are made, and the
// reply comes before, between or after the other events, then they succeed, with bulk and reply.
//
// selftest 3 client (1)
func TestCallsInAnyOrder(t *testing.T) {
	data := []byte("some data")
	for name, test := range map[string]struct {
		bulk   int // 0 none, 1 sink, 2 source
		script func(r request)
	}{
		"no bulk":                {0, func(r request) { r.status(message.OK) }},
		"sink, bulk first":       {1, func(r request) { r.put(r.bulk, data); r.status(message.OK) }},
		"sink, reply first":      {1, func(r request) { r.status(message.OK); r.put(r.bulk, data) }},
		"source, bulk first":     {2, func(r request) { r.get(make([]byte, 9), func() { r.status(message.OK) }) }},
		"source, reply first":    {2, func(r request) { r.status(message.OK); r.get(make([]byte, 9), func() {}) }},
		"source, bad after bulk": {2, func(r request) { r.get(make([]byte, 9), func() { r.status(message.EBADMSG) }) }},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				s.play(test.script)
				bulk := Bulk{}
				switch test.bulk {
				case 1:
					bulk = Bulk{Bytes: make([]byte, len(data)), Sink: true}
				case 2:
					bulk = Bulk{Bytes: data}
				}
				r, err := s.call(bulk)
				if err != nil || r.Version != 1 {
					t.Fatalf("%+v, %v", r, err)
				}
				if test.bulk == 1 && !bytes.Equal(bulk.Bytes, data) {
					t.Errorf("bulk %q", bulk.Bytes)
				}
				if c := s.counts.Snapshot(); c != (message.RPCCounters{Sent: 1}) {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// Given a call with a bulk, when the reply has an error status and no bulk comes, then the call ends
// immediately with that reply, and the bulk cannot be accessed later.
//
// selftest 1 (3), 3 client (3)
func TestRefusalEndsTheBulk(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.play(func(r request) { r.status(message.EINVAL) })
		bulk := make([]byte, 8)
		began := time.Now()
		r, err := s.call(Bulk{Bytes: bulk, Sink: true})
		if err != nil || r.Status != message.EINVAL || time.Since(began) > time.Second {
			t.Fatalf("%+v, %v after %v", r, err, time.Since(began))
		}
		r0 := s.first()
		r0.put(r0.bulk, []byte("too late"))
		time.Sleep(time.Second)
		if !bytes.Equal(bulk, make([]byte, 8)) {
			t.Errorf("written to: %q", bulk)
		}
	})
}

// Given servers that send wrong answers, when calls are made, then each fails immediately with an error that
// names the reason.
//
// selftest 3 client (2)
func TestBadAnswers(t *testing.T) {
	header := message.NewHeader(1)
	for name, test := range map[string]struct {
		bulk   Bulk
		script func(r request)
		want   error
	}{
		"short": {Bulk{}, func(r request) { r.answer(make([]byte, 159)) }, ErrBadReply},
		"long":  {Bulk{}, func(r request) { r.answer(make([]byte, 4096)) }, ErrBadReply},
		"empty": {Bulk{}, func(r request) { r.answer(nil) }, ErrBadReply},
		"zeros": {Bulk{}, func(r request) { r.answer(make([]byte, 160)) }, ErrBadReply},
		"type": {Bulk{}, func(r request) {
			m := message.PingReply{Header: header}
			r.answer(m.Append(nil))
		}, ErrBadReply},
		"its own request": {Bulk{}, func(r request) { r.answer(r.b) }, ErrBadReply},
		"version": {Bulk{}, func(r request) {
			m := message.BRWReply{Header: message.Header{Version: 2}}
			r.answer(m.Append(nil))
		}, ErrBadVersion},
		"short bulk": {Bulk{Bytes: make([]byte, 8), Sink: true}, func(r request) {
			r.put(r.bulk, make([]byte, 7))
			r.status(message.OK)
		}, ErrShortBulk},
		"short fetch": {Bulk{Bytes: make([]byte, 8)}, func(r request) {
			r.get(make([]byte, 7), func() { r.status(message.OK) })
		}, ErrShortBulk},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				s.play(test.script)
				began := time.Now()
				if r, err := s.call(test.bulk); !errors.Is(err, test.want) || time.Since(began) > time.Second {
					t.Errorf("%+v, %v after %v", r, err, time.Since(began))
				}
			})
		})
	}
}

// Given a server that does not answer, when the deadline passes, the caller cancels, or the client is
// closed, then the call ends with the matching error and errno. Only a deadline is counted as expired.
//
// selftest 3 client (2), 3 client (4), 3 counters
func TestWaysToGiveUp(t *testing.T) {
	for name, test := range map[string]struct {
		give    func(s *scene, cancel func())
		want    error
		errno   syscall.Errno
		expired uint32
		after   time.Duration
	}{
		"deadline": {func(*scene, func()) {}, ErrTimedOut, syscall.ETIMEDOUT, 1, 5 * time.Second},
		"cancel":   {func(_ *scene, cancel func()) { cancel() }, ErrAborted, syscall.EINTR, 0, time.Second},
		"close":    {func(s *scene, _ func()) { s.closeClient() }, ErrClosed, syscall.ESHUTDOWN, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				began := time.Now()
				time.AfterFunc(time.Second, func() { test.give(s, cancel) })
				q := &message.BRWRequest{Header: message.NewHeader(1), Op: 1, Length: 8, Check: 1}
				err := s.client.Call(ctx, s.to, q, new(message.BRWReply), Bulk{Bytes: make([]byte, 8), Sink: true})
				if !errors.Is(err, test.want) || Errno(err) != test.errno || time.Since(began) != test.after {
					t.Errorf("%v (%d) after %v", err, Errno(err), time.Since(began))
				}
				if c := s.counts.Snapshot(); c != (message.RPCCounters{Sent: 1, Expired: test.expired}) {
					t.Errorf("%+v", c)
				}
				s.first().status(message.OK) // no buffer is there for it
				time.Sleep(time.Second)
			})
		})
	}
}

// Given a node that cannot send to the server, when it makes a call, then the call fails immediately, and the
// failure is counted as an error. Cancellations by the call itself are not counted.
//
// selftest 3 client (2), 3 counters
func TestFailedMessagesCount(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.play(func(r request) { r.status(message.OK) })
		if _, err := s.call(Bulk{}); err != nil { // completes discovery
			t.Fatal(err)
		}
		err := s.node.Admin().AddFault(fault.Rule{
			Kind: fault.Drop, Dest: fault.Only(s.to.NID), Rate: 1, Statuses: fault.StatusOf(lnd.StatusLocalError),
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = s.call(Bulk{Bytes: make([]byte, 8), Sink: true})
		if lnd.StatusOf(err) != lnd.StatusLocalError || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if c := s.counts.Snapshot(); c != (message.RPCCounters{Sent: 2, Errors: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

// Given invalid calls, then they fail without sending a message.
func TestInvalidCalls(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		q := &message.PingRequest{Header: message.NewHeader(1)}
		good := s.to
		for name, test := range map[string]struct {
			to   lnet.ProcessID
			bulk int
		}{
			"any NID": {lnet.ProcessID{NID: lnet.AnyNID, PID: good.PID}, 0}, "no NID": {lnet.ProcessID{PID: good.PID}, 0},
			"any PID": {lnet.ProcessID{NID: good.NID, PID: lnet.PIDAny}, 0}, "no PID": {lnet.ProcessID{NID: good.NID}, 0},
			"long bulk": {good, message.MaxBulk + 1},
		} {
			err := s.client.Call(t.Context(), test.to, q, new(message.PingReply), Bulk{Bytes: make([]byte, test.bulk)})
			if !errors.Is(err, ErrInvalid) || Errno(err) != syscall.EINVAL {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.client.Call(ctx, good, q, new(message.PingReply), Bulk{}); !errors.Is(err, ErrAborted) {
			t.Errorf("canceled before: %v", err)
		}
		nowhere := lnet.ProcessID{NID: lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 7), 1), PID: lnet.PIDLustre}
		err := s.client.Call(t.Context(), nowhere, q, new(message.PingReply), Bulk{})
		if !errors.Is(err, node.ErrUnreachable) || Errno(err) != syscall.EHOSTUNREACH {
			t.Errorf("nowhere: %v (%d)", err, Errno(err))
		}
		s.closeClient()
		if err := s.client.Call(t.Context(), good, q, new(message.PingReply), Bulk{}); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Given a thousand concurrent callers, of which the server ignores every tenth, then each gets its own
// answer or times out.
//
// selftest 1 (5), 3 client (4)
func TestThousandsInParallel(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.play(func(r request) {
			var q message.PingRequest
			if err := q.Decode(r.b); err != nil {
				t.Error(err)
			}
			if q.Seq%10 != 0 {
				m := message.PingReply{Header: message.NewHeader(1), Magic: q.Magic, Seq: q.Seq}
				r.answer(m.Append(nil))
			}
		})
		for range 7 { // more buffers
			s.serve()
		}
		var wg sync.WaitGroup
		ids := sync.Map{}
		for k := range uint32(1000) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				var r message.PingReply
				q := &message.PingRequest{Header: message.NewHeader(1), Magic: message.PingMagic, Seq: k}
				switch err := s.client.Call(ctx, s.to, q, &r, Bulk{}); {
				case k%10 == 0 && !errors.Is(err, ErrTimedOut), k%10 != 0 && (err != nil || r.Seq != k):
					t.Errorf("%d: %+v, %v", k, r, err)
				}
			})
		}
		wg.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.requests {
			if _, twice := ids.LoadOrStore(r.reply, true); twice || r.reply == 0 {
				t.Fatalf("reply ID %#x twice", r.reply)
			}
		}
		if c := s.counts.Snapshot(); c != (message.RPCCounters{Sent: 1000, Expired: 100}) {
			t.Errorf("%+v", c)
		}
	})
}

// chain starts its call again each time that it has ended.
type chain struct {
	client *Client
	left   int
	errs   []error
	inside atomic.Bool // Start has not returned
	within int         // calls that ended before that
	done   chan struct{}
}

func (c *chain) Ended(k *Call) {
	c.errs = append(c.errs, k.Err())
	if !c.inside.CompareAndSwap(true, false) {
		c.next(k)
	}
}

func (c *chain) next(k *Call) {
	for c.left > 0 {
		c.left--
		c.inside.Store(true)
		c.client.Start(k)
		if c.inside.CompareAndSwap(true, false) {
			return
		}
		c.within++
	}
	close(c.done)
}

// Given one Call that is used again and again, with a timeout that passes for some uses, then a late
// timer of an earlier use has no effect.
func TestCallIsReused(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		n := 0
		s.play(func(r request) {
			if n++; n%3 == 0 {
				return
			}
			time.AfterFunc(time.Duration(n%5)*time.Second, func() { r.status(message.OK) })
		})
		c := &chain{client: s.client, left: 60, done: make(chan struct{})}
		k := &Call{To: s.to, Service: message.ServiceBRW, Timeout: 3500 * time.Millisecond, Waiter: c}
		k.SetRequest(&message.BRWRequest{Header: message.NewHeader(1)})
		c.next(k)
		<-c.done
		for k, err := range c.errs {
			n := k + 1
			late := n%3 == 0 || n%5 >= 4
			if late != errors.Is(err, ErrTimedOut) {
				t.Errorf("%d: %v", n, err)
			}
		}
	})
}

// Given a target for which the node simulates failures, when calls are made one after the other, then
// each ends before Start returns, without recursion.
func TestEndWithinStart(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		if err := s.node.Admin().FailNID(s.to.NID, fault.Forever); err != nil {
			t.Fatal(err)
		}
		c := &chain{client: s.client, left: 10000, done: make(chan struct{})}
		k := &Call{To: s.to, Service: message.ServicePing, Waiter: c, Timeout: time.Second}
		k.SetRequest(&message.PingRequest{Header: message.NewHeader(1)})
		c.next(k)
		<-c.done
		if len(c.errs) != 10000 || c.within != 10000 || !errors.Is(c.errs[0], node.ErrFailNID) || s.counts.Sent.Load() != 0 {
			t.Errorf("%d, %d of them within Start, %v", len(c.errs), c.within, c.errs[0])
		}
	})
}

// Given a call under way, when its node is closed, then it still ends at its deadline.
func TestNodeClosedUnderACall(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		done := make(chan error, 1)
		go func() {
			_, err := s.call(Bulk{Bytes: make([]byte, 8), Sink: true})
			done <- err
		}()
		time.Sleep(time.Second)
		if err := s.node.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := <-done; err == nil {
			t.Error("the call succeeded")
		}
		if _, err := s.call(Bulk{}); err == nil {
			t.Error("a call of a closed node succeeded")
		}
	})
}

// Given errors of all kinds, then no errno is 0.
func TestErrno(t *testing.T) {
	if Errno(nil) != 0 {
		t.Error("nil has a number")
	}
	for _, e := range errnos {
		if got := Errno(fmt.Errorf("wrapped: %w", e.err)); got == 0 || got != e.errno && got != syscall.ETIMEDOUT {
			t.Errorf("%v: %d", e.err, got)
		}
	}
	if got := Errno(errors.New("strange")); got != syscall.EIO {
		t.Errorf("%d", got)
	}
	if got := Errno(fmt.Errorf("wrapped: %w", syscall.ENETDOWN)); got != syscall.ENETDOWN {
		t.Errorf("%d", got)
	}
}
