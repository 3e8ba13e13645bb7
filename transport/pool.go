package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Pool keeps registered buffers that are not in use (transport 4). TMs can fill their receive queues from
// it (transport 5). Domain.NewPool creates one. All methods are safe for concurrent use. Except for
// Provision, Prune and Close, they block only on locks.
type Pool struct {
	domain *Domain
	config PoolConfig
	stride int // distance between the starts of two segments, in bytes

	mu         orderedMutex[poolRank] // guards the fields below
	closed     bool
	size       int          // number of buffers, free or not
	creating   int          // buffers being created by Provision
	attached   int          // number of attached TMs
	byAge      pooledList   // all free buffers, oldest return first
	byColour   []pooledList // free buffers of each colour, newest return first
	uncoloured pooledList   // free buffers without a colour, oldest return first
	getFailed  bool         // a Get has failed since the pool became empty
	waiting    waitList     // TMs with a deficit
	serveRound uint64       // counts attempts to serve them; Put starts a new one
}

// PoolConfig holds the parameters of a pool.
type PoolConfig struct {
	// Segments is the number of segments of each buffer, SegmentSize their length in bytes. The limits of
	// the domain apply.
	Segments, SegmentSize int
	// Threshold is the number of free buffers below which Low is called. Prune keeps that many. 0 means 2.
	Threshold int
	// Colours is the number of colours, 0 to 1<<20. Put accepts colours 0 to Colours-1.
	Colours int
	// Alignment is the alignment of each segment, a power of two up to the page size. 0 means none.
	Alignment int
	// NoDump excludes the memory of the buffers from core dumps.
	NoDump bool
	// NotEmpty is called when a buffer has returned to an empty pool and all waiting TMs have been served,
	// which may have emptied the pool again. Low is called when Get, or a TM that fills its queue, leaves
	// fewer than Threshold free buffers. Either may be nil.
	//
	// Both are called without locks by the goroutine that called the pool, or by the TM's worker or
	// DeliverAll after the callback of the event. They may use the pool. Low is called recursively if it
	// takes buffers itself: by every Get, and by Provision if waiting TMs take all new buffers.
	NotEmpty, Low func(p *Pool)
}

const (
	// defaultThreshold is used if PoolConfig.Threshold is 0.
	defaultThreshold = 2
	// maxColours is the maximum of PoolConfig.Colours.
	maxColours = 1 << 20
)

// NewPool creates an empty pool. It returns EINVAL if c is invalid or the domain is closed, EFBIG if the
// buffers would be too large, and ENOSYS if the system does not support NoDump.
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

// checkPool returns an error if c is invalid or exceeds the limits.
func (l Limits) checkPool(c *PoolConfig) error {
	switch {
	case c.Segments < 1 || c.Segments > l.Segments:
		return fmt.Errorf("%d segments, not 1 to %d: %w", c.Segments, l.Segments, syscall.EINVAL)
	case c.SegmentSize < 1 || c.SegmentSize > l.SegmentSize:
		return fmt.Errorf("segments of %d bytes, not 1 to %d: %w", c.SegmentSize, l.SegmentSize, syscall.EINVAL)
	case c.Segments > l.BufferSize/c.SegmentSize:
		return fmt.Errorf("buffers of %d segments of %d bytes, more than %d bytes: %w",
			c.Segments, c.SegmentSize, l.BufferSize, syscall.EFBIG)
	case c.Threshold < 0:
		return fmt.Errorf("threshold %d: %w", c.Threshold, syscall.EINVAL)
	case c.Colours < 0 || c.Colours > maxColours:
		return fmt.Errorf("%d colours, not 0 to %d: %w", c.Colours, maxColours, syscall.EINVAL)
	case c.Alignment < 0 || c.Alignment&(c.Alignment-1) != 0 || c.Alignment > os.Getpagesize():
		return fmt.Errorf("alignment %d, not a power of two up to %d: %w", c.Alignment, os.Getpagesize(), syscall.EINVAL)
	case c.NoDump && !canHide:
		return fmt.Errorf("memory cannot be left out of core dumps: %w", syscall.ENOSYS)
	}
	return nil
}

// Provision adds n new buffers to the pool. It returns the number of buffers created and, if that is less
// than n, the error: that of ctx or the Core, or EINVAL if the pool is closed. It may block until ctx ends.
// Waiting TMs get the new buffers at once. Low is called at the end if too few are left.
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

// newBuffer creates a buffer that is not on any list yet.
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
			return nil, errors.Join(fmt.Errorf("leave memory out of core dumps: %w", err), p.domain.free(b))
		}
	}
	b.state.pool = p
	b.state.use.Store(pooled)
	return b, nil
}

var errPoolClosed = fmt.Errorf("the pool is closed: %w", syscall.EINVAL)

// Get takes a buffer from the pool. It prefers the buffer most recently returned with this colour, then the
// longest free one among those new or returned without a colour, then the longest free one of all. A colour
// that the pool does not have counts as none. Get returns nil if no buffer is free.
func (p *Pool) Get(colour uint32) *Buffer {
	p.mu.Lock()
	b, news := p.take(colour)
	p.getFailed = p.getFailed || b == nil
	p.mu.Unlock()
	p.call(news)
	return b
}

// Put returns a buffer to the pool with a colour, which must be AnyColour or below PoolConfig.Colours; the
// Colour of a TM may be neither. Waiting TMs are served before Put returns. It returns EINVAL if b does not
// belong to the pool, its EndPoint is not nil, or the colour is invalid, and EBUSY if b is queued or in the
// pool already. After an error nothing has changed.
func (p *Pool) Put(b *Buffer, colour uint32) error {
	err := p.claim(b, colour)
	if err != nil {
		return fmt.Errorf("transport: put into pool: %w", err)
	}
	p.call(p.put(b, colour))
	return nil
}

// claim transfers ownership of b from the program to the pool.
func (p *Pool) claim(b *Buffer, colour uint32) error {
	if b == nil || b.state.pool != p {
		return fmt.Errorf("the buffer is another's: %w", syscall.EINVAL)
	}
	if colour != AnyColour && colour >= uint32(p.config.Colours) {
		return fmt.Errorf("colour %d of a pool of %d: %w", colour, p.config.Colours, syscall.EINVAL)
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

// put inserts a claimed buffer and serves waiting TMs.
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

// returnUnused returns a buffer that was taken but could not be used. Unlike put, it does not serve waiting
// TMs. It does not cause a call of NotEmpty, unless a Get has found the pool empty since. mu is held.
func (p *Pool) returnUnused(b *Buffer) poolCalls {
	if b.state.claim(pooled) != nil {
		return 0 // the program has added the buffer without owning it
	}
	p.insert(b, AnyColour)
	if !p.getFailed || p.byAge.length > 1 {
		return 0
	}
	p.getFailed = false
	return callNotEmpty
}

// poolCalls is a set of actions to perform after the locks are released.
type poolCalls uint8

const (
	callNotEmpty poolCalls = 1 << iota // call NotEmpty
	callLow                            // call Low
	callRefused                        // a TM could not use buffers; offer them to others
)

// call calls the callbacks that n requests. No lock is held. p may be nil if n is 0.
func (p *Pool) call(n poolCalls) {
	if n&callNotEmpty != 0 && p.config.NotEmpty != nil {
		p.config.NotEmpty(p)
	}
	if n&callLow != 0 && p.config.Low != nil {
		p.config.Low(p)
	}
}

// Prune frees the longest free buffer if more than Threshold are free, and reports whether it did. It may
// block.
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

// end frees a buffer that was taken from the pool. If that fails, end returns it to the pool.
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

// Close closes the pool and frees its buffers. It may block. It returns EBUSY if a buffer is not in the
// pool or a TM is attached, and EINVAL if the pool is closed; then nothing has changed. If the Core cannot
// free some buffers, Close returns its error; these remain in the pool, and Close can be called again.
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
