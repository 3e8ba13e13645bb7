package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// stress has many goroutines that use the same TMs and buffers, on a Core that acts at random.
type stress struct {
	t       *testing.T
	core    *fakeCore
	domain  *Domain
	tms     []*TransferMachine
	buffers []*Buffer
	added   []atomic.Int64 // by buffer: successful adds
	finals  []atomic.Int64
	seed    uint64
	steps   atomic.Int64 // of all clients
}

func newStress(t *testing.T, seed uint64, synchronous bool) *stress {
	c := &stress{t: t, core: newFakeCore(), seed: seed}
	c.core.submit = c.submit
	c.core.wrap = func(tm *fakeTM) CoreTM { return eagerTM{tm} }
	d, err := NewDomain(context.Background(), c.core)
	c.check(err)
	c.domain = d
	for range 2 {
		tm, err := d.NewTM(func(e *TMEvent) {})
		c.check(err)
		if synchronous {
			c.check(tm.DeliverSynchronously())
		}
		c.check(tm.Start(address))
		c.check(tm.Await(context.Background(), StateStarted))
		c.tms = append(c.tms, tm)
	}
	const n = 12
	c.added, c.finals = make([]atomic.Int64, n), make([]atomic.Int64, n)
	var calls Callbacks
	for q := range calls {
		calls[q] = c.called
	}
	for i := range n {
		b := NewBuffer(make([]byte, 100))
		c.check(d.Register(context.Background(), b))
		b.Callbacks, b.Data = &calls, i
		b.Queue = []QueueType{MsgRecv, PassiveBulkRecv, PassiveBulkSend}[i%3]
		b.Length, b.MinReceiveSize, b.MaxMessages = 10, 10, 3
		c.buffers = append(c.buffers, b)
	}
	return c
}

func (c *stress) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// submit sometimes refuses ops.
func (c *stress) submit(_ *fakeTM, ops []Op) (int, error) {
	if rand.IntN(20) == 0 {
		return rand.IntN(len(ops)), syscall.ENOMEM
	}
	return len(ops), nil
}

// eagerTM sometimes completes ops before Submit has returned.
type eagerTM struct{ *fakeTM }

func (tm eagerTM) Submit(ops []Op) (int, error) {
	n, err := tm.fakeTM.Submit(ops)
	if rand.IntN(4) == 0 {
		tm.someOne()
		runtime.Gosched()
	}
	return n, err
}

// called counts events, and sometimes adds again, cancels, or calls other methods.
func (c *stress) called(e *BufferEvent) {
	i := e.Buffer.Data.(int)
	if !e.Final {
		return
	}
	c.finals[i].Add(1)
	switch rand.IntN(6) {
	case 0:
		c.count(e.Buffer, e.TM.Add(e.Buffer))
	case 1:
		c.count(e.Buffer, e.Add(e.Buffer))
	case 2:
		e.TM.Cancel(c.buffers[rand.IntN(len(c.buffers))])
	case 3:
		if e.EndPoint != nil {
			e.EndPoint.Get().Put()
		}
	}
}

// count records the result of an add.
func (c *stress) count(b *Buffer, err error) {
	if err == nil {
		c.added[b.Data.(int)].Add(1)
		return
	}
	for _, fine := range []syscall.Errno{syscall.EBUSY, syscall.EINVAL, syscall.ENOMEM, syscall.EPIPE, syscall.ESHUTDOWN} {
		if errors.Is(err, fine) {
			return
		}
	}
	c.t.Errorf("Add: %v", err)
}

// clientSteps is the number of actions of each client.
const clientSteps = 200

// runClient performs n random actions.
func (c *stress) runClient(r *rand.Rand, n int) {
	for range n {
		c.steps.Add(1)
		tm := c.tms[r.IntN(len(c.tms))]
		b := c.buffers[r.IntN(len(c.buffers))]
		switch r.IntN(6) {
		case 0, 1:
			c.count(b, tm.Add(b))
		case 2:
			tm.Cancel(b)
		case 3:
			_, _, _ = b.Flags(), b.MessagesReceived(), tm.AllStats()
		case 4:
			if e, err := tm.EndPointAt(peer); err == nil {
				e.Put()
			}
		case 5:
			bs := []*Buffer{b, c.buffers[r.IntN(len(c.buffers))]}
			n, err := tm.AddAll(bs...)
			for _, b := range bs[:n] {
				c.count(b, nil)
			}
			if err != nil {
				c.count(bs[n], err)
			}
		}
	}
}

// Many goroutines add, cancel, query and stop concurrently, on two TMs with the same buffers. The Core
// refuses ops, completes them before Submit returns, and goes away. Each successful add has one final
// event, each failed add has no event, and all TMs end.
//
// transport 3.10 guarantees
func TestStress(t *testing.T) {
	defer goleak.VerifyNone(t)
	for seed := range uint64(20) {
		c := newStress(t, seed, seed%2 == 1)
		c.run(seed%4 >= 2)
	}
}

func (c *stress) run(down bool) {
	var clients, rest sync.WaitGroup
	var over atomic.Bool
	for i := range uint64(4) {
		clients.Go(func() { c.runClient(rand.New(rand.NewPCG(c.seed, i)), clientSteps) })
	}
	for i, tm := range c.tms {
		fake := c.core.tms[i]
		rest.Go(func() { // the core
			for !over.Load() {
				fake.someOne()
				fake.obey()
				runtime.Gosched()
			}
		})
		if tm.synchronous {
			rest.Go(func() {
				for !over.Load() {
					if _, err := tm.DeliverAll(); err != nil && !errors.Is(err, syscall.EINVAL) {
						c.t.Error(err)
					}
					runtime.Gosched()
				}
			})
		}
		when := rand.Int64N(4 * clientSteps)
		rest.Go(func() {
			for c.steps.Load() < when {
				runtime.Gosched()
			}
			if down && i == 0 {
				fake.goDown()
				return
			}
			stop := tm.Stop
			if c.seed%3 == 0 {
				stop = tm.Abort
			}
			if err := stop(); err != nil && !errors.Is(err, syscall.EINVAL) {
				c.t.Error(err)
			}
		})
	}
	clients.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, tm := range c.tms {
		if err := tm.Shutdown(ctx); err != nil {
			c.t.Fatal(err)
		}
	}
	over.Store(true)
	rest.Wait()
	c.compare()
}

// compare checks the totals at the end.
func (c *stress) compare() {
	total := int64(0)
	for i, b := range c.buffers {
		total += c.added[i].Load()
		if added, finals := c.added[i].Load(), c.finals[i].Load(); added != finals {
			c.t.Errorf("buffer %d was added %d times, and has ended %d times", i, added, finals)
		}
		if b.Flags() != FlagRegistered {
			c.t.Errorf("buffer %d has flags %#x", i, b.Flags())
		}
	}
	if total == 0 {
		c.t.Error("nothing was added")
	}
	for _, tm := range c.tms {
		if tm.credits != 0 || tm.queued != 0 || tm.batchesInUse != 0 || tm.callbacks != 0 || len(tm.deadlines) != 0 {
			c.t.Errorf("left: %d credits, %d buffers, %d calls, %d callbacks", tm.credits, tm.queued, tm.batchesInUse, tm.callbacks)
		}
	}
}

// someOne completes the oldest op, or, for a receive buffer, perhaps only one of its messages.
func (tm *fakeTM) someOne() {
	tm.mu.Lock()
	if len(tm.ops) == 0 {
		tm.mu.Unlock()
		return
	}
	op := tm.ops[0]
	c := Completion{Token: op.Buffer.(*fakeBuffer).token, Sequence: op.Sequence, Final: true, Length: 1}
	if op.Queue == MsgRecv {
		c.Sender = peer
		c.Final = rand.IntN(2) == 0
	}
	if c.Final {
		tm.ops = append(tm.ops[:0], tm.ops[1:]...)
	}
	tm.mu.Unlock()
	tm.push(c)
}

// goDown drops all ops, and reports that the Core is gone.
func (tm *fakeTM) goDown() {
	tm.mu.Lock()
	tm.stopped = true
	tm.ops = nil
	tm.mu.Unlock()
	tm.push(Completion{Down: true, Err: syscall.EPIPE})
}
