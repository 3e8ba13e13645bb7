package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Pool keeps registered buffers that nobody uses (transport 4). TMs with a pool fill their
// receive queues from it (transport 5). Domain.NewPool makes one. All methods are safe for
// concurrent use; none blocks but on a lock, except Provision, Prune and Close.
type Pool struct {
	domain *Domain
	config PoolConfig
	stride int // from one segment to the next, in bytes

	mu       orderedMutex[poolRank] // guards the rest
	closed   bool
	size     int          // buffers, free or not
	making   int          // buffers that Provision makes at this moment
	attached int          // TMs
	byAge    pooledList   // the free ones, the one that came back first in front
	byColour []pooledList // the free ones of a colour, the one that came back last in front
	plain    pooledList   // those without a colour, the one that came back first in front
	missed   bool         // a Get has found nothing since a buffer came into the empty pool
	hungry   hungryList   // TMs with a deficit
	round    uint64       // of attempts to serve those: each Put that may begins one
}

// PoolConfig says how a pool shall be.
type PoolConfig struct {
	// Segments of SegmentSize bytes make up each buffer, within the domain's limits.
	Segments, SegmentSize int
	// Threshold is the number of free buffers below which Low is called, and that Prune
	// leaves; 0: 2.
	Threshold int
	// Colours is how many there are, 0 to 1<<20: Put takes 0 to Colours-1.
	Colours int
	// Alignment is what segments begin at a multiple of, a power of two up to the page
	// size; 0: any.
	Alignment int
	// NoDump leaves the memory out of core dumps.
	NoDump bool
	// NotEmpty is called when the first free buffer has come back into an empty pool, and
	// all TMs that lacked one were served, which may have emptied it again. Low is called
	// when a Get, or a TM that fills its queue, leaves fewer than Threshold. Both run in
	// whoever called, or in the worker of the TM, or in DeliverAll, there behind the callback
	// of the event, under no lock, and may use the pool; but what takes buffers in Low calls
	// it again: Get, always, and Provision, if TMs take all that it makes, so that its calls
	// nest until they lack none. They may be nil.
	NotEmpty, Low func(p *Pool)
}

const (
	// defaultThreshold is PoolConfig.Threshold unless another one is set.
	defaultThreshold = 2
	// maxColours is the highest PoolConfig.Colours.
	maxColours = 1 << 20
)

// NewPool makes an empty pool. EINVAL: it cannot be so, or the domain is closed; EFBIG: the
// buffers are too large; ENOSYS: NoDump is not to be had on this system.
func (d *Domain) NewPool(c PoolConfig) (*Pool, error) {
	if c.Threshold == 0 {
		c.Threshold = defaultThreshold
	}
	if err := d.limits.checkPool(&c); err != nil {
		return nil, fmt.Errorf("transport: new pool: %w", err)
	}
	p := &Pool{domain: d, config: c, stride: c.SegmentSize, round: 1, byColour: make([]pooledList, c.Colours)}
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

// checkPool tells whether a pool can be so.
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

// Provision adds n new buffers to the pool. It returns how many it could make, and the
// error that kept it from more: ctx's, the Core's, or EINVAL if the pool is closed. It may
// block until ctx ends. TMs that lack buffers get them at once; Low is called at the end, if
// they have left too few.
func (p *Pool) Provision(ctx context.Context, n int) (int, error) {
	var (
		made int
		all  news
		err  error
	)
	for ; made < n; made++ {
		var one news
		if one, err = p.provision(ctx); err != nil {
			err = fmt.Errorf("transport: provision pool: %w", err)
			break
		}
		all |= one
		p.call(one &^ newsLow)
	}
	if all&newsLow != 0 && p.Free() < p.config.Threshold {
		p.call(newsLow)
	}
	return made, err
}

// provision is Provision of one buffer.
func (p *Pool) provision(ctx context.Context) (news, error) {
	if err := ctx.Err(); err != nil {
		return 0, withErrno(err)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return 0, errPoolClosed
	}
	p.making++
	p.mu.Unlock()
	b, err := p.newBuffer(ctx)
	p.mu.Lock()
	p.making--
	if err != nil {
		p.mu.Unlock()
		return 0, err
	}
	p.size++
	p.mu.Unlock()
	return p.put(b, AnyColour), nil
}

// newBuffer makes a buffer that is in no list yet.
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

// Get takes a free buffer out: of that colour the one that came back last; else, of those
// that came back with none, or are new, the one that has been free for longest; else of
// all. A colour that there is not is none. It is nil if no buffer is free.
func (p *Pool) Get(colour uint32) *Buffer {
	p.mu.Lock()
	b, news := p.take(colour)
	p.missed = p.missed || b == nil
	p.mu.Unlock()
	p.call(news)
	return b
}

// Put brings a buffer back, with a colour below PoolConfig.Colours, or AnyColour: a TM's Colour
// may be neither. TMs that lack buffers have been given them when it returns. EINVAL: b is not
// the pool's, its EndPoint is not nil, or there is no such colour; EBUSY: b is queued, or in the
// pool. Nothing has happened then.
func (p *Pool) Put(b *Buffer, colour uint32) error {
	err := p.claim(b, colour)
	if err != nil {
		return fmt.Errorf("transport: put into pool: %w", err)
	}
	p.call(p.put(b, colour))
	return nil
}

// claim makes b, which the program has, the pool's.
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

// put brings back a buffer that was claimed, and serves the TMs that lack one.
func (p *Pool) put(b *Buffer, colour uint32) news {
	p.mu.Lock()
	p.insert(b, colour)
	first := p.byAge.length == 1
	serve := p.hungry.first != nil
	if serve {
		p.round++
	}
	p.missed = p.missed && !first
	p.mu.Unlock()
	var news news
	if first {
		news = newsNotEmpty
	}
	if serve {
		news |= p.serve()
	}
	return news
}

// giveBack is put of a buffer that was taken and could not be used, which is no news to a
// program, unless it has found the pool empty meanwhile. It serves nobody. mu is held.
func (p *Pool) giveBack(b *Buffer) news {
	if b.state.claim(pooled) != nil {
		return 0 // somebody has got hold of it who should not
	}
	p.insert(b, AnyColour)
	if !p.missed || p.byAge.length > 1 {
		return 0
	}
	p.missed = false
	return newsNotEmpty
}

// news is what has to be done when the locks are released.
type news uint8

const (
	newsNotEmpty news = 1 << iota // call NotEmpty
	newsLow                       // call Low
	newsRefused                   // a TM could not use buffers: others may
)

// call calls the callbacks that are due. No lock is held. p may be nil if there is no news.
func (p *Pool) call(n news) {
	if n&newsNotEmpty != 0 && p.config.NotEmpty != nil {
		p.config.NotEmpty(p)
	}
	if n&newsLow != 0 && p.config.Low != nil {
		p.config.Low(p)
	}
}

// Prune ends the buffer that has been free for longest if more than Threshold are free, and
// tells whether it has. It may block.
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

// end ends a buffer that was taken out, or else gives it back.
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
		news := p.giveBack(b)
		p.mu.Unlock()
		p.call(news | p.serve())
		return err
	}
	p.mu.Lock()
	p.size--
	p.mu.Unlock()
	return nil
}

// Free is how many buffers are in the pool.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byAge.length
}

// Size is how many buffers belong to the pool, in it or not.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Close ends the pool and its buffers. It may block. EBUSY: some are out, or a TM is
// attached, and nothing has happened; EINVAL: it is closed; or the Core's, which does not
// let go of some buffers: then the pool has those yet, and may be closed later.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return fmt.Errorf("transport: close pool: %w", errPoolClosed)
	}
	if out := p.size - p.byAge.length; out > 0 || p.making > 0 || p.attached > 0 {
		err := fmt.Errorf("transport: close pool: %d buffers are out, %d are being made, %d TMs are attached: %w",
			out, p.making, p.attached, syscall.EBUSY)
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
