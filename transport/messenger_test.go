package transport

import (
	"context"
	"errors"
	"math"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// messengerTM is a fakeTM that carries out cancellations immediately if obeys is set.
type messengerTM struct {
	*fakeTM
	obeys *bool
}

func (tm messengerTM) Submit(ops []Op) (int, error) {
	n, err := tm.fakeTM.Submit(ops)
	if *tm.obeys {
		tm.obey()
	}
	return n, err
}

// messengerFixture is a Messenger on a fake Core.
type messengerFixture struct {
	*Messenger
	t     *testing.T
	core  *fakeCore
	obeys bool
}

func withMessenger(t *testing.T, c MessengerConfig, test func(f *messengerFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &messengerFixture{t: t, core: newFakeCore(), obeys: true}
		f.core.wrap = func(tm *fakeTM) CoreTM { return messengerTM{tm, &f.obeys} }
		m, err := c.Open(context.Background(), f.core, "0@lo:12345:34:1")
		if err != nil {
			t.Fatal(err)
		}
		f.Messenger = m
		test(f)
		f.check(m.Close(), nil)
		f.check(m.Close(), nil)
		if f.core.allocated != 0 || len(f.core.buffers) != 0 || f.core.closed != 1 {
			t.Errorf("%d pieces of memory and %d buffers remain, the domain was closed %d times",
				f.core.allocated, len(f.core.buffers), f.core.closed)
		}
		f.check(m.Send(context.Background(), peer, []byte("late")), ErrMessengerClosed)
		_, err = m.Receive(context.Background())
		f.check(err, ErrMessengerClosed)
		for _, err := range m.Messages(context.Background()) {
			t.Errorf("a closed messenger has an element: %v", err)
		}
	})
}

func (f *messengerFixture) check(err, want error) {
	f.t.Helper()
	if !errors.Is(err, want) {
		f.t.Errorf("%v, want %v", err, want)
	}
}

func (f *messengerFixture) fake() *fakeTM { return f.core.tms[0] }

// send calls Messenger.Send in a new goroutine. It returns when the message is on its way, or when Send waits
// for a buffer.
func (f *messengerFixture) send(ctx context.Context, text string) <-chan error {
	out := make(chan error, 1)
	go func() { out <- f.Send(ctx, peer, []byte(text)) }()
	synctest.Wait()
	return out
}

// queued returns the buffers that are on a queue of the Core.
func (f *messengerFixture) queued(q QueueType) (list []*Buffer) {
	tm := f.fake()
	tm.mu.Lock()
	defer tm.mu.Unlock()
	for _, op := range tm.ops {
		if op.Queue == q {
			list = append(list, op.Buffer.(*fakeBuffer).token.(*Buffer))
		}
	}
	return list
}

func (f *messengerFixture) pends(out <-chan error) {
	f.t.Helper()
	synctest.Wait()
	select {
	case err := <-out:
		f.t.Errorf("Send returned %v early", err)
	default:
	}
}

// Given a messenger that sends one message at a time, then Send waits until the message has left, a second Send
// waits for the first, and a context ends the wait.
func TestMessengerSend(t *testing.T) {
	withMessenger(t, MessengerConfig{Sending: 1}, func(f *messengerFixture) {
		first := f.send(f.t.Context(), "first")
		ctx, cancel := context.WithCancel(f.t.Context())
		second := f.send(ctx, "second")
		f.pends(first)
		f.pends(second)
		cancel()
		err := <-second
		f.check(err, context.Canceled)
		f.check(err, syscall.ECANCELED)
		third := f.send(f.t.Context(), "third")
		b := f.queued(MsgSend)[0]
		if got := string(b.Bytes()[:b.Length]); got != "first" || b.EndPoint.Address() != peer {
			t.Errorf("%q is sent to %v", got, b.EndPoint)
		}
		f.fake().finish(b, 0)
		f.check(<-first, nil)
		synctest.Wait()
		f.fake().fail(f.queued(MsgSend)[0], syscall.EHOSTUNREACH)
		f.check(<-third, syscall.EHOSTUNREACH)
		f.check(f.Send(ctx, peer, []byte("x")), context.Canceled)
		f.check(f.Send(f.t.Context(), peer, nil), syscall.EINVAL)
		f.check(f.Send(f.t.Context(), Address{}, []byte("x")), syscall.EINVAL)
		f.check(f.Send(f.t.Context(), peer, make([]byte, 4097)), syscall.EMSGSIZE)
		if n := len(f.queued(MsgSend)); n != 0 {
			t.Errorf("%d messages are queued", n)
		}
	})
}

// Given a message on its way, when the context of Send ends, then Send returns immediately. The buffer is
// used again only when the Core no longer uses it, and the cancellation does not affect the next message.
func TestMessengerSendIsAbandoned(t *testing.T) {
	withMessenger(t, MessengerConfig{Sending: 1}, func(f *messengerFixture) {
		f.obeys = false
		ctx, cancel := context.WithCancel(f.t.Context())
		first := f.send(ctx, "first")
		cancel()
		f.check(<-first, context.Canceled)
		next := f.send(f.t.Context(), "next")
		f.pends(next)
		f.fake().obey()
		f.pends(next)
		f.fake().obey()
		f.fake().finish(f.queued(MsgSend)[0], 0)
		f.check(<-next, nil)
		f.obeys = true
	})
}

// Given calls that wait, when the messenger is closed, then they return ErrMessengerClosed.
func TestMessengerClose(t *testing.T) {
	withMessenger(t, MessengerConfig{Sending: 1}, func(f *messengerFixture) {
		sent, waiting := f.send(f.t.Context(), "sent"), f.send(f.t.Context(), "waits")
		received := make(chan error, 1)
		go func() {
			_, err := f.Receive(f.t.Context())
			received <- err
		}()
		var messages sync.WaitGroup
		messages.Go(func() {
			for _, err := range f.Messages(f.t.Context()) {
				t.Errorf("an element: %v", err)
			}
		})
		synctest.Wait()
		var closed sync.WaitGroup
		for range 3 {
			closed.Go(func() { f.check(f.Close(), nil) })
		}
		closed.Wait()
		messages.Wait()
		for _, c := range []<-chan error{sent, waiting, received} {
			f.check(<-c, ErrMessengerClosed)
		}
	})
}

// Given a messenger whose Core is gone, then calls return EPIPE after the messages that had arrived.
func TestMessengerCoreIsGone(t *testing.T) {
	withMessenger(t, MessengerConfig{Unread: 2}, func(f *messengerFixture) {
		copy(f.queued(MsgRecv)[0].Bytes(), "last")
		f.fake().finish(f.queued(MsgRecv)[0], 4)
		synctest.Wait()
		f.fake().mu.Lock()
		f.fake().ops = nil // the Core uses no buffer any more
		f.fake().mu.Unlock()
		f.fake().push(Completion{Down: true, Err: syscall.EPIPE})
		synctest.Wait()
		count := 0
		for msg, err := range f.Messages(f.t.Context()) {
			count++
			if count == 1 && (err != nil || string(msg.Data) != "last" || msg.From != peer) {
				t.Errorf("%q from %v: %v", msg.Data, msg.From, err)
			}
			if count == 2 {
				f.check(err, syscall.EPIPE)
			}
		}
		if count != 2 {
			t.Errorf("%d elements, want 2", count)
		}
		f.check(f.Send(f.t.Context(), peer, []byte("x")), syscall.EPIPE)
	})
}

// Given a Core that refuses a receive buffer, when the program receives again, then the buffer is queued again.
// A message without a usable sender does not use up a buffer.
func TestMessengerQueuesBuffersAgain(t *testing.T) {
	withMessenger(t, MessengerConfig{Unread: 1}, func(f *messengerFixture) {
		tm := f.fake()
		tm.fail(f.queued(MsgRecv)[0], syscall.EPROTO)
		synctest.Wait()
		setSubmit := func(submit func(*fakeTM, []Op) (int, error)) {
			tm.mu.Lock()
			tm.submit = submit
			tm.mu.Unlock()
		}
		for range 2 {
			tm.finish(f.queued(MsgRecv)[0], 0)
			setSubmit(func(*fakeTM, []Op) (int, error) { return 0, syscall.ENOBUFS })
			if msg, err := f.Receive(f.t.Context()); err != nil || len(msg.Data) != 0 {
				t.Errorf("%q: %v", msg.Data, err)
			}
			if n := len(f.queued(MsgRecv)); n != 0 {
				t.Errorf("%d buffers are queued", n)
			}
			setSubmit(nil)
			ctx, cancel := context.WithCancel(f.t.Context())
			cancel()
			_, err := f.Receive(ctx)
			f.check(err, syscall.ECANCELED)
			if n := len(f.queued(MsgRecv)); n != 1 {
				t.Errorf("%d buffers are queued, want 1", n)
			}
		}
	})
}

// Given a Core that refuses receive buffers for a second, while the program waits in Receive, then the buffers are
// queued again after pauses, and the next message is received.
func TestMessengerIsRefusedForAWhile(t *testing.T) {
	withMessenger(t, MessengerConfig{Unread: 2}, func(f *messengerFixture) {
		tm := f.fake()
		received := make(chan error, 1)
		go func() {
			_, err := f.Receive(f.t.Context())
			received <- err
		}()
		synctest.Wait()
		submits := 0
		tm.mu.Lock()
		tm.submit = func(*fakeTM, []Op) (int, error) {
			submits++
			return 0, syscall.ENOBUFS
		}
		tm.mu.Unlock()
		for _, b := range f.queued(MsgRecv) {
			tm.fail(b, syscall.EPROTO)
		}
		time.Sleep(time.Second)
		tm.mu.Lock()
		if submits < 5 || submits > 50 {
			t.Errorf("buffers were submitted %d times", submits)
		}
		tm.submit = nil
		tm.mu.Unlock()
		time.Sleep(queuePause)
		synctest.Wait()
		if n := len(f.queued(MsgRecv)); n != 2 {
			t.Fatalf("%d buffers are queued, want 2", n)
		}
		tm.finish(f.queued(MsgRecv)[0], 0)
		f.check(<-received, nil)
	})
}

// Given an invalid configuration, or a Core that refuses a step of Open, then Open returns the reason and
// leaves nothing allocated.
func TestMessengerOpenFails(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  MessengerConfig
		address string
		prepare func(c *fakeCore)
		want    error
	}{
		{"negative size", MessengerConfig{MessageSize: -1}, "0@lo:12345:34:1", nil, syscall.EINVAL},
		{"many unread", MessengerConfig{Unread: math.MaxInt}, "0@lo:12345:34:1", nil, syscall.EINVAL},
		{"many sending", MessengerConfig{Sending: MostMessages + 1}, "0@lo:12345:34:1", nil, syscall.EINVAL},
		{"large size", MessengerConfig{MessageSize: 1<<20 + 1}, "0@lo:12345:34:1", nil, syscall.EFBIG},
		{"address", MessengerConfig{}, "0@lo:12345:34", nil, syscall.EINVAL},
		{"domain", MessengerConfig{}, "0@lo:12345:34:1", func(c *fakeCore) { c.openErr = syscall.EPIPE }, syscall.EPIPE},
		{"memory", MessengerConfig{}, "0@lo:12345:34:1", func(c *fakeCore) { c.regErr = syscall.EDQUOT }, syscall.EDQUOT},
		{"start", MessengerConfig{}, "0@lo:12345:34:1", func(c *fakeCore) {
			c.start = func(context.Context, Address) error { return syscall.EADDRINUSE }
		}, syscall.EADDRINUSE},
		{"receive buffers", MessengerConfig{}, "0@lo:12345:34:1", func(c *fakeCore) {
			c.submit = func(*fakeTM, []Op) (int, error) { return 0, syscall.ENOBUFS }
		}, syscall.ENOBUFS},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := newFakeCore()
				if c.prepare != nil {
					c.prepare(core)
				}
				if _, err := c.config.Open(t.Context(), core, c.address); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if core.allocated != 0 || len(core.buffers) != 0 || core.closed != core.opened {
					t.Errorf("%d pieces of memory and %d buffers remain", core.allocated, len(core.buffers))
				}
			})
		})
	}
}
