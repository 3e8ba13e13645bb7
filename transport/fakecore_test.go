package transport

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnet"
)

// fakeCore is a Core that moves no data. It stores the ops that it is given, and the test completes them.
type fakeCore struct {
	mu      sync.Mutex
	limits  Limits
	openErr error
	regErr  error
	// failRegister, failDeregister and failFree, unless nil, are called before a buffer is registered or
	// deregistered, or memory is freed. No lock is held.
	failRegister   func() error
	failDeregister func() error
	failFree       func() error
	// start, unless nil, is called before a TM starts, and may block.
	start func(ctx context.Context, a Address) error
	// submit is the function submit of started TMs.
	submit func(tm *fakeTM, ops []Op) (int, error)
	// flush, unless nil, implements Flush of all TMs.
	flush func(tm *fakeTM, until time.Time)
	// wrap, unless nil, returns what the engine sees of a TM.
	wrap func(tm *fakeTM) CoreTM
	// maxRoom is the maximum room of a TM; 0 means no limit.
	maxRoom int

	opened, closed int
	allocated      int // pieces of memory that were not freed
	buffers        map[*fakeBuffer]bool
	tms            []*fakeTM // all that were started, in order
}

// newFakeCore returns a core with limits that no test reaches by accident.
func newFakeCore() *fakeCore {
	return &fakeCore{
		limits: Limits{
			BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256, DescriptorSize: 48,
			Confine: true, Synchronous: true,
		},
		buffers: make(map[*fakeBuffer]bool),
	}
}

func (c *fakeCore) Name() string { return "fake" }

func (c *fakeCore) Open(context.Context) (CoreDomain, error) {
	if c.openErr != nil {
		return nil, c.openErr
	}
	c.opened++
	return c, nil
}

func (c *fakeCore) Close() error {
	c.closed++
	return nil
}

func (c *fakeCore) Limits() Limits { return c.limits }

func (c *fakeCore) NIDs(context.Context) ([]lnet.NID, error) {
	return []lnet.NID{lnet.LoopbackNID}, nil
}

func (c *fakeCore) Alloc(_ context.Context, n int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocated++
	page := os.Getpagesize()
	b := make([]byte, n+2*page)
	ahead := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	return b[ahead:][:n], nil
}

func (c *fakeCore) Free([]byte) error {
	if c.failFree != nil {
		if err := c.failFree(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocated--
	return nil
}

// fakeBuffer is a registered buffer.
type fakeBuffer struct {
	core     *fakeCore
	segments [][]byte
	token    any
}

func (c *fakeCore) Register(_ context.Context, segments [][]byte, token any) (CoreBuffer, error) {
	if c.failRegister != nil {
		if err := c.failRegister(); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.regErr != nil {
		return nil, c.regErr
	}
	b := &fakeBuffer{c, segments, token}
	c.buffers[b] = true
	return b, nil
}

func (b *fakeBuffer) Deregister() error {
	if fail := b.core.failDeregister; fail != nil {
		if err := fail(); err != nil {
			return err
		}
	}
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	delete(b.core.buffers, b)
	return nil
}

func (c *fakeCore) StartTM(ctx context.Context, a Address, completions int) (CoreTM, error) {
	if c.start != nil {
		if err := c.start(ctx, a); err != nil {
			return nil, err
		}
	}
	if a.TMID == Dynamic {
		a.TMID = MaxTMID
	}
	tm := &fakeTM{core: c, address: a, room: completions, submit: c.submit, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	c.tms = append(c.tms, tm)
	c.mu.Unlock()
	if c.wrap != nil {
		return c.wrap(tm), nil
	}
	return tm, nil
}

// fakeTM stores ops until the test completes them.
type fakeTM struct {
	core    *fakeCore
	address Address
	wake    chan struct{}
	pending atomic.Int32

	mu sync.Mutex
	// submit, unless nil, determines which ops are accepted. No lock is held.
	submit  func(tm *fakeTM, ops []Op) (int, error)
	ops     []Op // accepted, and not completed
	cancels []Op // all cancellations
	calls   []int
	queue   []Completion
	room    int
	stopped bool
}

func (tm *fakeTM) Address() Address { return tm.address }

// MatchBits returns 0 as the counter, so that the first passive buffer has 1.
func (tm *fakeTM) MatchBits() MatchBits { return MakeMatchBits(tm.address.TMID, 0) }

func (tm *fakeTM) Submit(ops []Op) (int, error) {
	tm.mu.Lock()
	submit, stopped := tm.submit, tm.stopped
	tm.mu.Unlock()
	if stopped {
		return 0, syscall.ESHUTDOWN
	}
	n, err := len(ops), error(nil)
	if submit != nil {
		n, err = submit(tm, ops)
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.calls = append(tm.calls, len(ops))
	for _, op := range ops[:n] {
		if op.Cancel {
			tm.cancels = append(tm.cancels, op)
		} else {
			tm.ops = append(tm.ops, op)
		}
	}
	return n, err
}

func (tm *fakeTM) Flush(until time.Time) {
	if flush := tm.core.flush; flush != nil {
		flush(tm, until)
	}
}

func (tm *fakeTM) Grow(n int) error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if limit := tm.core.maxRoom; limit > 0 && n > limit {
		return syscall.ENOBUFS
	}
	tm.room = max(tm.room, n)
	return nil
}

func (tm *fakeTM) Reap(dst []Completion) int {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	n := copy(dst, tm.queue)
	tm.queue = tm.queue[:copy(tm.queue, tm.queue[n:])]
	tm.pending.Add(int32(-n))
	return n
}

func (tm *fakeTM) Pending() bool { return tm.pending.Load() > 0 }

func (tm *fakeTM) Wait(until time.Time) {
	if tm.Pending() {
		return
	}
	if until.IsZero() {
		<-tm.wake
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-tm.wake:
	case <-timer.C:
	}
}

func (tm *fakeTM) Wake() {
	select {
	case tm.wake <- struct{}{}:
	default:
	}
}

func (tm *fakeTM) Stop() error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if len(tm.ops) > 0 {
		return syscall.EBUSY
	}
	tm.stopped = true
	return nil
}

// push adds completions.
func (tm *fakeTM) push(cs ...Completion) {
	tm.mu.Lock()
	for _, c := range cs {
		if c.Time.IsZero() {
			c.Time = time.Now()
		}
		tm.queue = append(tm.queue, c)
	}
	tm.pending.Add(int32(len(cs)))
	tm.mu.Unlock()
	tm.Wake()
}

// peer is the sender of messages of the fake core.
var peer = Address{NID: lnet.LoopbackNID, PID: lnet.PIDLustre, Portal: 34, TMID: 7}

// take removes the op of a buffer if final is set, and returns a completion for it.
func (tm *fakeTM) take(b *Buffer, final bool) Completion {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	for i, op := range tm.ops {
		if op.Buffer.(*fakeBuffer).token == any(b) {
			if final {
				tm.ops = append(tm.ops[:i], tm.ops[i+1:]...)
			}
			c := Completion{Token: b, Sequence: op.Sequence, Final: final}
			if op.Queue == MsgRecv {
				c.Sender = peer
			}
			return c
		}
	}
	panic("the core does not have the buffer")
}

// finish completes the op of a buffer successfully with n bytes.
func (tm *fakeTM) finish(b *Buffer, n int) {
	c := tm.take(b, true)
	c.Length = n
	tm.push(c)
}

// fail completes the op of a buffer with an error.
func (tm *fakeTM) fail(b *Buffer, err error) {
	c := tm.take(b, true)
	c.Err, c.Sender = err, Address{}
	tm.push(c)
}

// message completes a message that does not end the op of a buffer.
func (tm *fakeTM) message(b *Buffer, off, n int) {
	c := tm.take(b, false)
	c.Offset, c.Length = off, n
	tm.push(c)
}

// obey completes the ops to be cancelled with ECANCELED.
func (tm *fakeTM) obey() {
	tm.mu.Lock()
	cancels := tm.cancels
	tm.cancels = nil
	var cs []Completion
	for _, c := range cancels {
		for i, op := range tm.ops {
			if op.Buffer == c.Buffer && op.Sequence == c.Sequence {
				tm.ops = append(tm.ops[:i], tm.ops[i+1:]...)
				cs = append(cs, Completion{Token: op.Buffer.(*fakeBuffer).token, Sequence: op.Sequence, Final: true, Err: syscall.ECANCELED})
				break
			}
		}
	}
	tm.mu.Unlock()
	if len(cs) > 0 {
		tm.push(cs...)
	}
}

// cancelled returns the number of cancellations since obey.
func (tm *fakeTM) cancelled() int {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return len(tm.cancels)
}

// has returns the number of ops that the Core holds.
func (tm *fakeTM) has() int {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return len(tm.ops)
}
