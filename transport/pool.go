package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Pool keeps registered buffers that are not in use (transport 4). TMs can fill their receive queues from a
// pool (transport 5). Domain.NewPool creates a pool. All methods are safe for concurrent use. Only Provision,
// Prune and Close may block other than on locks.
type Pool struct {
	domain *Domain
	config PoolConfig
	stride int // distance between the starts of two segments, in bytes

	mu         orderedMutex[poolRank] // guards the fields below
	closed     bool
	size       int          // number of buffers, free or not
	creating   int          // buffers being created by Provision
	attached   int          // number of attached TMs
	byAge      pooledList   // all free buffers, longest free first
	byColour   []pooledList // free buffers of each colour, most recently returned first
	uncoloured pooledList   // free buffers without a colour, longest free first
	getFailed  bool         // a Get has returned nil since the pool became empty
	waiting    waitList     // TMs with a deficit
	serveRound uint64       // counts the rounds in which waiting TMs are served; put begins a new round
}

// PoolConfig holds the parameters of a pool.
type PoolConfig struct {
	// Segments is the number of segments of each buffer. SegmentSize is the length of each segment in bytes.
	// The limits of the domain apply.
	Segments, SegmentSize int
	// Threshold is the number of free buffers below which Low is called. Prune leaves at least this many. 0
	// means 2.
	Threshold int
	// Colours is the number of colours, 0 to 1<<20. Put accepts colours 0 to Colours-1.
	Colours int
	// Alignment is the alignment of each segment in bytes, a power of two up to the page size. 0 means none.
	Alignment int
	// NoDump excludes the memory of the buffers from core dumps.
	NoDump bool
	// NotEmpty is called after a buffer has been returned to an empty pool and all waiting TMs have been
	// served. Serving them may have emptied the pool again. Low is called when Get, or a TM that fills its
	// queue, leaves fewer than Threshold free buffers. Either function may be nil.
	//
	// Both are called without locks, and may use the pool. They run in the goroutine that called a method of
	// the pool. If a TM filled its queue after an event, they run after the event's callback, in the same
	// goroutine. If Low itself takes buffers, it is called recursively: by every Get, and by Provision if
	// waiting TMs take all new buffers.
	NotEmpty, Low func(p *Pool)
}

const (
	// defaultThreshold is used if PoolConfig.Threshold is 0.
	defaultThreshold = 2
	// maxColours is the maximum of PoolConfig.Colours.
	maxColours = 1 << 20
)

// NewPool creates a pool without buffers; Provision adds them. NewPool returns EINVAL if c is invalid or the
// domain is closed, EFBIG if the buffers would be too large, and ENOSYS if NoDump is set and the system does
// not support it.
func (d *Domain) NewPool(c PoolConfig) (*Pool, error) {
	if c.Threshold == 0 {
		c.Threshold = defaultThreshold
	}
	if err := d.limits.checkPool(&c); err != nil {
		return nil, fmt.Errorf("transport: new pool: %w", err)
	}
	p := &Pool{domain: d, config: c, stride: c.SegmentSize, serveRound: 1, byColour: make([]pooledList, c.Colours)}
	if c.Alignment > 0 {
		p.stride = (c.SegmentSize + c.Alignment - 1) &^ (c.Alignment - 1)
	}
	p.byAge.kind = linkAge
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return nil, err
	}
	d.pools++
	return p, nil
}

// checkPool returns an error if c is invalid or its buffers would exceed the limits.
func (l Limits) checkPool(c *PoolConfig) error {
	switch {
	case c.Segments < 1 || c.Segments > l.Segments:
		return fmt.Errorf("%d segments are not within 1 to %d: %w", c.Segments, l.Segments, syscall.EINVAL)
	case c.SegmentSize < 1 || c.SegmentSize > l.SegmentSize:
		return fmt.Errorf("segments of %d bytes are not within 1 to %d bytes: %w", c.SegmentSize, l.SegmentSize, syscall.EINVAL)
	case c.Segments > l.BufferSize/c.SegmentSize:
		return fmt.Errorf("buffers of %d segments of %d bytes are longer than %d bytes: %w",
			c.Segments, c.SegmentSize, l.BufferSize, syscall.EFBIG)
	case c.Threshold < 0:
		return fmt.Errorf("threshold %d is negative: %w", c.Threshold, syscall.EINVAL)
	case c.Colours < 0 || c.Colours > maxColours:
		return fmt.Errorf("%d colours are not within 0 to %d: %w", c.Colours, maxColours, syscall.EINVAL)
	case c.Alignment < 0 || c.Alignment&(c.Alignment-1) != 0 || c.Alignment > os.Getpagesize():
		return fmt.Errorf("alignment %d is not a power of two up to %d: %w", c.Alignment, os.Getpagesize(), syscall.EINVAL)
	case c.NoDump && !canHide:
		return fmt.Errorf("this system cannot exclude memory from core dumps: %w", syscall.ENOSYS)
	}
	return nil
}

// Provision adds n new buffers to the pool, and returns the number of buffers added. If this is less than n,
// it also returns the error: that of ctx or the Core, or EINVAL if the pool is closed. It may block until ctx
// ends. TMs that wait for buffers get the new ones first. If this leaves fewer than Threshold free buffers,
// Low is called once at the end.
func (p *Pool) Provision(ctx context.Context, n int) (int, error) {
	var (
		made int
		all  poolCalls
		err  error
	)
	for ; made < n; made++ {
		var one poolCalls
		if one, err = p.provision(ctx); err != nil {
			err = fmt.Errorf("transport: provision pool: %w", err)
			break
		}
		all |= one
		p.call(one &^ callLow)
	}
	if all&callLow != 0 && p.Free() < p.config.Threshold {
		p.call(callLow)
	}
	return made, err
}

// provision creates one buffer for Provision.
func (p *Pool) provision(ctx context.Context) (poolCalls, error) {
	if err := ctx.Err(); err != nil {
		return 0, withErrno(err)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return 0, errPoolClosed
	}
	p.creating++
	p.mu.Unlock()
	b, err := p.newBuffer(ctx)
	p.mu.Lock()
	p.creating--
	if err != nil {
		p.mu.Unlock()
		return 0, err
	}
	p.size++
	p.mu.Unlock()
	return p.put(b, AnyColour), nil
}

// newBuffer creates a buffer of the pool that is not on any list of the pool yet.
func (p *Pool) newBuffer(ctx context.Context) (*Buffer, error) {
	c := &p.config
	b, err := p.domain.allocate(ctx, p.stride*(c.Segments-1)+c.SegmentSize, func(memory []byte) [][]byte {
		segments := make([][]byte, c.Segments)
		for i := range segments {
			segments[i] = memory[i*p.stride:][:c.SegmentSize]
		}
		return segments
	})
	if err != nil {
		return nil, err
	}
	if c.NoDump {
		if err := hide(b.state.memory); err != nil {
			return nil, errors.Join(fmt.Errorf("exclude memory from core dumps: %w", err), p.domain.free(b))
		}
	}
	b.state.pool = p
	b.state.use.Store(pooled)
	return b, nil
}

var errPoolClosed = fmt.Errorf("the pool is closed: %w", syscall.EINVAL)

// Get removes a buffer from the pool and returns it. It prefers the buffer that was most recently returned
// with this colour. Otherwise it returns the longest free buffer among those that are new or were returned
// without a colour, and otherwise the longest free buffer of all. A colour that the pool does not have counts
// as AnyColour. Get returns nil if no buffer is free.
func (p *Pool) Get(colour uint32) *Buffer {
	p.mu.Lock()
	b, news := p.take(colour)
	p.getFailed = p.getFailed || b == nil
	p.mu.Unlock()
	p.call(news)
	return b
}

// Put returns a buffer to the pool with a colour. The colour must be AnyColour or less than
// PoolConfig.Colours; the result of TransferMachine.Colour may be neither. Before Put returns, TMs that wait
// for buffers get the buffer. Put returns EINVAL if b does not belong to the pool, if b.EndPoint is not nil,
// or if the colour is invalid, and EBUSY if b is queued or already in the pool. After an error nothing has
// changed.
func (p *Pool) Put(b *Buffer, colour uint32) error {
	err := p.claim(b, colour)
	if err != nil {
		return fmt.Errorf("transport: put into pool: %w", err)
	}
	p.call(p.put(b, colour))
	return nil
}

// claim transfers ownership of b from the program to the pool, if the arguments of Put are valid.
func (p *Pool) claim(b *Buffer, colour uint32) error {
	if b == nil || b.state.pool != p {
		return fmt.Errorf("the buffer does not belong to this pool: %w", syscall.EINVAL)
	}
	if colour != AnyColour && colour >= uint32(p.config.Colours) {
		return fmt.Errorf("colour %d: the pool only has the %d colours from 0: %w", colour, p.config.Colours, syscall.EINVAL)
	}
	if err := b.state.claim(pooled); err != nil {
		return err
	}
	if b.EndPoint != nil {
		b.state.use.Store(idle)
		return errReceives
	}
	return nil
}

// put inserts a buffer that the pool owns and serves waiting TMs. The caller must pass the result to call.
func (p *Pool) put(b *Buffer, colour uint32) poolCalls {
	p.mu.Lock()
	p.insert(b, colour)
	first := p.byAge.length == 1
	serve := p.waiting.first != nil
	if serve {
		p.serveRound++
	}
	p.getFailed = p.getFailed && !first
	p.mu.Unlock()
	var news poolCalls
	if first {
		news = callNotEmpty
	}
	if serve {
		news |= p.serveWaiting()
	}
	return news
}

// returnUnused returns a buffer that was taken from the pool but could not be used. Unlike put, it does not
// serve waiting TMs. It requests a call of NotEmpty only if a Get has returned nil in between. mu is held.
func (p *Pool) returnUnused(b *Buffer) poolCalls {
	if b.state.claim(pooled) != nil {
		return 0 // the program has added this free buffer to a TM, which is not allowed; the TM keeps it
	}
	p.insert(b, AnyColour)
	if !p.getFailed || p.byAge.length > 1 {
		return 0
	}
	p.getFailed = false
	return callNotEmpty
}

// poolCalls is a set of actions that the caller must perform after it has released all locks.
type poolCalls uint8

const (
	callNotEmpty poolCalls = 1 << iota // call NotEmpty
	callLow                            // call Low
	callRefused                        // a TM could not use buffers, so other TMs should get them
)

// call calls NotEmpty and Low as n requests. No lock is held. p may be nil if n is 0.
func (p *Pool) call(n poolCalls) {
	if n&callNotEmpty != 0 && p.config.NotEmpty != nil {
		p.config.NotEmpty(p)
	}
	if n&callLow != 0 && p.config.Low != nil {
		p.config.Low(p)
	}
}

// Prune removes one buffer from the pool and frees its memory if more than Threshold buffers are free. It
// selects the buffer that has been free the longest. It reports whether it has freed a buffer. It may block.
func (p *Pool) Prune() bool {
	p.mu.Lock()
	if p.byAge.length <= p.config.Threshold {
		p.mu.Unlock()
		return false
	}
	b := p.oldest()
	p.mu.Unlock()
	return p.end(b) == nil
}

// end frees the memory of a buffer that was removed from the pool's lists. If that fails, end returns the
// buffer to the pool and serves waiting TMs.
func (p *Pool) end(b *Buffer) error {
	if p.config.NoDump {
		unhide(b.state.memory)
	}
	b.state.use.Store(idle)
	if err := p.domain.free(b); err != nil {
		if p.config.NoDump {
			err = errors.Join(err, hide(b.state.memory))
		}
		p.mu.Lock()
		news := p.returnUnused(b)
		p.mu.Unlock()
		p.call(news | p.serveWaiting())
		return err
	}
	p.mu.Lock()
	p.size--
	p.mu.Unlock()
	return nil
}

// Free returns the number of free buffers in the pool.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byAge.length
}

// Size returns the number of buffers that belong to the pool, free or not.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Close closes the pool and frees its buffers. It may block. It returns EBUSY if a buffer is not in the pool
// or a TM is attached, and EINVAL if the pool is closed; in these cases nothing has changed. If the Core
// cannot free some of the buffers, Close returns the error of the Core, the pool keeps these buffers and
// remains open, and Close can be called again.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return fmt.Errorf("transport: close pool: %w", errPoolClosed)
	}
	if out := p.size - p.byAge.length; out > 0 || p.creating > 0 || p.attached > 0 {
		err := fmt.Errorf("transport: close pool: %d buffers are in use, %d are being created, %d TMs are attached: %w",
			out, p.creating, p.attached, syscall.EBUSY)
		p.mu.Unlock()
		return err
	}
	p.closed = true
	var all []*Buffer
	for b := p.oldest(); b != nil; b = p.oldest() {
		all = append(all, b)
	}
	p.mu.Unlock()
	var err error
	for _, b := range all {
		err = errors.Join(err, p.end(b))
	}
	if err != nil {
		p.mu.Lock()
		p.closed = false
		p.mu.Unlock()
		return fmt.Errorf("transport: close pool: %w", err)
	}
	p.domain.mu.Lock()
	p.domain.pools--
	p.domain.mu.Unlock()
	return nil
}
