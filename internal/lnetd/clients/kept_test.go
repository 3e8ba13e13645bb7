package clients

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// receiver is a client with a TM of few entries, on which a MSG_RECV for any number of messages is under way.
// push makes the Core report messages.
type receiver struct {
	*one
	t      fataler
	world  *world
	hosted *tm
	held   *buffer
	pushed int // number of messages pushed; each has its number as its offset
	read   int // number of messages read
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (w *world) receiver(entries uint32) *receiver {
	w.t.Helper()
	r := &receiver{one: w.one(7, entries), t: w.t, world: w}
	r.tm.begin(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1<<31 - 1}, r.buffer, 1))
	c := w.client(r.peer)
	var err error
	if r.hosted, err = c.tm(r.tm.handle); err != nil {
		w.t.Fatal(err)
	}
	if r.held, err = c.buffers.find(r.buffer.Index, r.buffer.Generation); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (r *receiver) push(n int) {
	for range n {
		r.hosted.Push(transport.Completion{Token: r.held, Sequence: 1, Offset: r.pushed, Length: 1, Time: time.Now()})
		r.pushed++
	}
}

// take reads up to n completions that are in the ring, and checks their order.
func (r *receiver) take(n int) {
	r.t.Helper()
	for range n {
		var c shm.Completion
		ok, err := r.tm.Completions.Next(&c)
		if err != nil {
			r.t.Fatalf("%v", err)
		}
		if !ok {
			break
		}
		if int(c.Offset) != r.read {
			r.t.Fatalf("message %d follows %d", c.Offset, r.read-1)
		}
		r.read++
	}
	if r.tm.Completions.ReleaseAndClaim() {
		r.tm.Submissions.Wake(r.tm.Submissions.ClaimAnyway())
	}
}

// takeAll reads all messages.
func (r *receiver) takeAll() {
	r.world.t.Helper()
	eventually(r.world.t, "all messages arrive", func() bool {
		r.take(1 << 20)
		return r.read == r.pushed
	})
}

// clearFlag sets CQ overflow to 0 without ringing.
func (r *receiver) clearFlag() {
	(*atomic.Uint32)(unsafe.Pointer(&r.tm.file[704])).Store(0) // transport 9.4
}

func (r *receiver) info() TMInfo { return r.hosted.info() }

// Given a ring of 4 entries, when 100 messages arrive before the client reads any, then lnetd keeps 96 and the
// TM and the buffer are busy until the client has read enough for the final completion to be in the ring. All
// arrive in order, and nothing remains.
//
// transport 9.5
func TestOverflow(t *testing.T) {
	w := newWorld(t, nil)
	o, s := w.one(7, 4), w.one(8, 16)
	charges := amounts{ofTMs: 1, ofAreas: 1, ofBytes: 4096, ofBuffers: 1, ofSegments: 1, ofEntries: 4}
	o.tm.begin(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 100}, o.buffer, 1))
	for i := range uint32(100) {
		s.tm.submit(of(to(shm.Submission{Opcode: shm.OpMsgSend, Length: 1}, o.tm.at), s.buffer, i))
		if c := s.tm.next(); c.Errno != 0 {
			t.Fatalf("%+v", c)
		}
	}
	if i := w.server.Clients()[0].TMs[0]; i.Waiting != 4 || i.Kept != 96 || i.Overflowed != 96 || i.Queues[transport.MsgRecv].Depth != 1 {
		t.Errorf("%+v", i)
	}
	if got := w.server.users.read(&w.client(o.peer).usage); got[ofEntries] != 100 {
		t.Errorf("%d entries are charged", got[ofEntries])
	}
	o.refused(&protocol.TMStop{Handle: o.tm.handle}, syscall.EBUSY)
	o.refused(&protocol.BufDeregister{Index: o.buffer.Index, Generation: o.buffer.Generation}, syscall.EBUSY)
	for i := range 100 {
		if c := o.tm.next(); c.Errno != 0 || c.Final != (i == 99) || int(c.Offset) != i {
			t.Fatalf("message %d: %+v", i, c)
		}
	}
	if i := w.server.Clients()[0].TMs[0]; i.Waiting != 0 || i.Kept != 0 || i.Queues[transport.MsgRecv].Depth != 0 {
		t.Errorf("%+v", i)
	}
	tm, err := w.client(o.peer).tm(o.tm.handle)
	if err != nil {
		t.Fatal(err)
	}
	tm.mu.Lock()
	if cap(tm.kept) != 0 {
		t.Errorf("an empty list has room for %d", cap(tm.kept))
	}
	tm.mu.Unlock()
	o.must(&protocol.TMStop{Handle: o.tm.handle}, &protocol.Counters{})
	_ = s.conn.Close()
	eventually(t, "the sender is gone", func() bool { return len(w.server.Clients()) == 1 })
	charges[ofTMs], charges[ofEntries] = 0, 0
	w.charged(o.peer, charges)
}

// TM_STOP finds room that the client has made without ringing. Until the final completion is in the ring, the
// operation is in progress.
func TestStopMovesKept(t *testing.T) {
	w := newWorld(t, nil)
	r := w.receiver(2)
	r.push(3)
	r.tm.begin(of(shm.Submission{Opcode: shm.OpCancel}, r.buffer, 1))
	r.take(1)
	r.clearFlag()
	r.refused(&protocol.TMStop{Handle: r.tm.handle}, syscall.EBUSY)
	r.take(2)
	r.must(&protocol.TMStop{Handle: r.tm.handle}, &protocol.Counters{})
	if c := r.tm.next(); c.Errno != syscall.ECANCELED || !c.Final || r.read != 3 {
		t.Errorf("%d messages, then %+v", r.read, c)
	}
}

// Whatever a client does with the ring and the flag, the messages arrive in order, and none is lost.
//
// transport 9.5
func TestOverflowKeepsOrder(t *testing.T) {
	for name, poll := range map[string]time.Duration{"sleeping": -1, "polling": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.PollTime = poll })
			w.t = t
			r := w.receiver(8)
			rapid.Check(t, func(rt *rapid.T) {
				r.t = rt
				for range rapid.IntRange(1, 30).Draw(rt, "steps") {
					switch rapid.SampledFrom([]string{"push", "take", "clear", "nop", "stop"}).Draw(rt, "step") {
					case "push":
						r.push(rapid.IntRange(1, 20).Draw(rt, "messages"))
					case "take":
						r.take(rapid.IntRange(1, 10).Draw(rt, "most"))
					case "clear":
						r.clearFlag()
						fallthrough // lnetd looks at the ring, because the client no longer wakes it
					case "nop":
						r.tm.submit(shm.Submission{Opcode: shm.OpNop})
						r.tm.taken()
					case "stop":
						r.refused(&protocol.TMStop{Handle: r.tm.handle}, syscall.EBUSY)
					}
					if i := r.info(); i.Waiting > 8 || i.Waiting+i.Kept != r.pushed-r.read {
						rt.Fatalf("%d messages of %d are read: %+v", r.read, r.pushed, i)
					}
				}
				r.takeAll()
			})
			if i := r.info(); i.Kept != 0 || i.Waiting != 0 {
				t.Errorf("%+v", i)
			}
		})
	}
}

// A client that never reads is cut off when lnetd would keep more than a quota allows, of the connection or of
// the user. It keeps the oldest completions. Another client continues, and everything is released.
//
// transport 9.5, 9.8
func TestOverflowIsBounded(t *testing.T) {
	q := Quotas{RingEntries: 40}
	for name, change := range map[string]func(*Config){"connection": mine(q, Quotas{}), "user 0": mine(Quotas{}, q)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			r, other := w.receiver(4), w.one(8, 4)
			if name != "connection" {
				name = "user"
			}
			r.push(33)
			if i := r.info(); i.Kept == 0 {
				t.Errorf("%+v", i)
			}
			r.push(1000)
			r.cut(syscall.ENOSPC, name)
			eventually(t, "it is gone", func() bool { return len(w.server.Clients()) == 1 })
			r.take(1000)
			if r.read != 4 {
				t.Errorf("%d messages are in the ring", r.read)
			}
			other.tm.submit(good(other.buffer, 1, other.tm.at)[shm.OpMsgSend])
			if c := other.tm.next(); !c.Final {
				t.Errorf("%+v", c)
			}
			w.charged(other.peer, amounts{ofTMs: 1, ofAreas: 1, ofBytes: 4096, ofBuffers: 1, ofSegments: 1, ofEntries: 4})
		})
	}
}

// A client without the feature is cut off when its ring is full. One that stays within its credits is not.
//
// transport 9.5
func TestWithoutOverflow(t *testing.T) {
	w := newWorld(t, nil)
	o := &one{peer: w.joinWith(0)}
	o.memory = o.share(4096)
	o.tm = o.start(34, 7, 8)
	o.buffer = o.register(protocol.Range{Area: o.memory.id, Length: 4096})
	if o.credits != 7 {
		t.Errorf("%d credits", o.credits)
	}
	o.tm.begin(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 100}, o.buffer, 1))
	r := receiver{one: o, t: t, world: w, held: &buffer{}}
	c := w.client(o.peer)
	var err error
	if r.hosted, err = c.tm(o.tm.handle); err != nil {
		t.Fatal(err)
	}
	if r.held, err = c.buffers.find(o.buffer.Index, o.buffer.Generation); err != nil {
		t.Fatal(err)
	}
	if r.hosted.PushTM(transport.Completion{Err: syscall.ENOBUFS}) {
		t.Error("an event of the TM has used a credit")
	}
	r.push(8)
	r.takeAll()
	r.push(9)
	o.cut(syscall.ENOSPC, "credits")
	w.empty()
	r.take(100)
	if r.read != 16 {
		t.Errorf("%d messages", r.read)
	}
}

// A client that is disconnected while lnetd keeps completions finds the oldest ones in the ring, and its
// operations end.
//
// transport 9.5, 9.10
func TestCutOffWithKept(t *testing.T) {
	w := newWorld(t, nil)
	r := w.receiver(4)
	r.push(10)
	r.take(2)
	if err := w.server.Drop(r.hello.Connection); err != nil {
		t.Fatal(err)
	}
	r.cut(syscall.ECONNABORTED, "administrator")
	w.empty()
	r.take(100)
	if r.read < 6 || r.read > 10 {
		t.Errorf("%d messages were in the ring", r.read)
	}
	w.server.users.mu.Lock()
	defer w.server.users.mu.Unlock()
	if n := len(w.server.users.all); n != 0 {
		t.Errorf("%d users are charged", n)
	}
}

// An event of the TM is written only if the ring has room for it. It never waits in lnetd.
//
// transport 9.5
func TestEventsOfTheTM(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Core = mem.New(mem.Config{Strict: true}).Host(home) })
	o, s := w.one(7, 4), w.one(8, 32)
	for i := range uint32(6) {
		s.tm.submit(of(to(shm.Submission{Opcode: shm.OpMsgSend, Length: 1}, o.tm.at), s.buffer, i))
		if c := s.tm.next(); c.Errno != syscall.ENOBUFS {
			t.Fatalf("%+v", c)
		}
	}
	if i := w.server.Clients()[0].TMs[0]; i.Waiting != 4 || i.Kept != 0 {
		t.Errorf("%+v", i)
	}
	o.tm.submit(good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv], of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, 1))
	for range 4 {
		if c := o.tm.next(); !c.TM || c.Errno != syscall.ENOBUFS || c.Final {
			t.Errorf("%+v", c)
		}
	}
	if c := o.tm.next(); !errors.Is(c.Errno, syscall.ECANCELED) || !c.Final {
		t.Errorf("%+v", c)
	}
}
