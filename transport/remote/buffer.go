package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// buffer is a CoreBuffer, and the state of the op on it: there is one at most.
type buffer struct {
	*registration
	domain *domain
	token  any
	size   int
	pieces []*piece
	own    *own // nil if Alloc has given all of the memory
	ended  atomic.Bool

	// tm is the one of the op, nil if there is none. It is changed with that TM's mu held,
	// and so who holds the mu of the TM that it names may look at the rest.
	tm       atomic.Pointer[tm]
	sequence uint32 // of the op, which lnetd knows by registration.operation more
	receives bool   // the op does
	credits  int
	// cancelled is the place in tm.cancels.buffers, from 1 on; 0: the op was not cancelled.
	// endedHere says that it has ended for the program, though not for lnetd.
	cancelled int
	endedHere bool
}

// table finds buffers by their indices. Finding one takes no lock.
type table struct {
	slots atomic.Pointer[[]atomic.Pointer[buffer]]

	mu sync.Mutex // guards changes
	n  int
}

// maxIndex bounds the table, whatever lnetd says.
const maxIndex = 1 << 20

// find is the buffer with an index, nil if there is none.
func (t *table) find(index uint32) *buffer {
	slots := t.slots.Load()
	if slots == nil || uint64(index) >= uint64(len(*slots)) {
		return nil
	}
	return (*slots)[index].Load()
}

// put makes b the one with its index. EPROTO: there is one, or none can have that.
func (t *table) put(b *buffer) error {
	if b.index >= maxIndex {
		return fmt.Errorf("buffer index %d: %w", b.index, syscall.EPROTO)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slots.Load()
	if slots == nil || int(b.index) >= len(*slots) {
		more := make([]atomic.Pointer[buffer], max(64, 2*int(b.index)))
		if slots != nil {
			for i := range *slots {
				more[i].Store((*slots)[i].Load())
			}
		}
		t.slots.Store(&more)
		slots = &more
	}
	if !(*slots)[b.index].CompareAndSwap(nil, b) {
		return fmt.Errorf("buffer index %d for two: %w", b.index, syscall.EPROTO)
	}
	t.n++
	return nil
}

// remove takes b out.
func (t *table) remove(b *buffer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[b.index].Store(nil)
	t.n--
}

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Register takes any memory: what Alloc has given, and whole pages of private memory, without
// copies; other memory is copied (transport 9.3), and so are pages that overlap those of a buffer
// in part, and a range that is one of more than maxExchanged. No goroutine may write to the
// memory of the buffer, if Alloc has not given it, during Register and Deregister. It asks lnetd,
// unless it knows a buffer of the same memory, and blocks until ctx ends. EDQUOT: lnetd knows as
// many buffers as it may, or maps no more, or Config.CopyMemory is used up.
func (d *domain) Register(ctx context.Context, segments [][]byte, token any) (transport.CoreBuffer, error) {
	b, err := d.register(ctx, segments, token)
	if err != nil {
		return nil, fmt.Errorf("remote: register %d segments: %w", len(segments), err)
	}
	return b, nil
}

func (d *domain) register(ctx context.Context, segments [][]byte, token any) (*buffer, error) {
	shared, o, err := d.store.share(ctx, segments)
	if err != nil {
		return nil, err
	}
	b := &buffer{domain: d, token: token, own: o}
	for _, s := range segments {
		b.size += len(s)
	}
	if err := d.name(ctx, b, shared); err != nil {
		d.store.unshare(o)
		return nil, err
	}
	return b, nil
}

// name gives b a registration of segments of the store: one that no buffer has, or another one of
// lnetd's.
func (d *domain) name(ctx context.Context, b *buffer, segments [][]byte) error {
	ranges, pieces, err := d.store.hold(segments, &d.agreed.Limits)
	if err != nil {
		return err
	}
	if b.registration, err = d.registration(ctx, ranges); err == nil {
		b.pieces = pieces
		if err = d.table.put(b); err != nil {
			d.connection.fail(err)
		}
	}
	if err != nil {
		d.store.letGo(pieces)
	}
	return err
}

func (d *domain) registration(ctx context.Context, ranges []protocol.Range) (*registration, error) {
	key := rangesKey(ranges)
	if r := d.idle.take(key); r != nil {
		if err := d.connection.over(); err != nil {
			return nil, err
		}
		return r, nil
	}
	var reply protocol.BufRegisterReply
	request := &protocol.BufRegister{Ranges: ranges}
	err := d.connection.ask(ctx, request, &reply, d.undoRegister)
	if errors.Is(err, syscall.EDQUOT) {
		err = d.makeRoom(ctx, func() error { return d.connection.ask(ctx, request, &reply, d.undoRegister) })
	}
	if err != nil {
		return nil, err
	}
	return newRegistration(ranges, key, &reply), nil
}

// makeRoom evicts idle registrations, the oldest eighth at a time, until try returns no EDQUOT, or
// none is left. Goroutines do so one after the other, and each tries once at least: another one
// may have made room.
func (d *domain) makeRoom(ctx context.Context, try func() error) error {
	select {
	case d.evicting <- struct{}{}:
		defer func() { <-d.evicting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		all, done := d.idle.evictOldest(), make(chan int, 1)
		d.connection.undoing.Go(func() { done <- d.forget(all) })
		select {
		case n := <-done:
			if err := try(); n == 0 || !errors.Is(err, syscall.EDQUOT) {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// evict has lnetd forget the idle registrations of an area.
func (d *domain) evict(area uint32) {
	d.forget(d.idle.evict(func(r *registration) bool { _, has := r.areas[area]; return has }))
}

// forget has lnetd forget registrations that no buffer has, and returns how many it has forgotten.
// One that lnetd has in use yet is idle again, and is evicted later, or ends with the connection.
func (d *domain) forget(all []*registration) (n int) {
	for _, r := range all {
		switch err := d.deregister(r.index, r.generation); {
		case err == nil:
			n++
		case errors.Is(err, syscall.EBUSY):
			d.idle.restore(r)
		}
	}
	return n
}

// undoRegister is for a buffer that nobody waits for any more.
func (d *domain) undoRegister(a *call) {
	var reply protocol.BufRegisterReply
	if d.connection.decode(a, &reply) == nil {
		// If lnetd refuses, there is nothing to be done.
		_ = d.deregister(reply.Index, reply.Generation)
	}
}

func (d *domain) deregister(index, generation uint32) error {
	r := protocol.BufDeregister{Index: index, Generation: generation}
	return d.connection.insist(&r, &protocol.Empty{})
}

// Deregister ends the buffer. lnetd may know it for longer, for the next buffer of the same
// memory; at times it is asked to forget one. EBUSY: an op on it is under way; EINVAL: it has
// ended.
func (b *buffer) Deregister() error {
	if t := b.tm.Load(); t != nil && !t.over() {
		return fmt.Errorf("remote: deregister: %w", errBusy)
	}
	if b.ended.Swap(true) {
		return fmt.Errorf("remote: deregister: %w", errBuffer)
	}
	d := b.domain
	d.table.remove(b) // before another one can have the index
	r := *b.registration
	r.operation += b.sequence + 1
	if oldest := d.idle.put(&r, min(maxIdle, int(d.agreed.Quotas.Buffers)/2)); oldest != nil {
		d.forget([]*registration{oldest})
	}
	d.store.letGo(b.pieces)
	d.store.unshare(b.own)
	return nil
}
