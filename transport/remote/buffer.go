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

// buffer is a CoreBuffer. It also contains the state of the op on the buffer; there is at most one at a time.
type buffer struct {
	*registration
	domain  *domain
	token   any
	size    int
	pieces  []*piece
	foreign *foreignMemory // nil if all of the buffer's memory is from Alloc
	ended   atomic.Bool

	// tm is the TM of the op in progress, or nil. It changes only while the mu of this TM is held. This mu
	// guards the fields below while tm points to the TM.
	tm       atomic.Pointer[tm]
	sequence uint32 // of the op; lnetd's operation number is this plus registration.operation
	receives bool   // the op receives data
	// cancelled is the index of the buffer in tm.cancels.buffers plus 1, or 0 if the op was not cancelled.
	// abandoned means that the end of the op was reported to the program, although lnetd has not ended the op
	// yet.
	cancelled int
	abandoned bool
}

// table maps the indexes that lnetd assigns to buffers. Lookups take no lock.
type table struct {
	slots atomic.Pointer[[]atomic.Pointer[buffer]]

	mu sync.Mutex // held while slots or a slot is changed
	n  int
}

// maxIndex is the largest permitted size of the table. It bounds memory if lnetd assigns an excessive index.
const maxIndex = 1 << 20

// find returns the buffer with the given index, or nil.
func (t *table) find(index uint32) *buffer {
	slots := t.slots.Load()
	if slots == nil || uint64(index) >= uint64(len(*slots)) {
		return nil
	}
	return (*slots)[index].Load()
}

// put stores b at its index. It returns EPROTO if the index is in use or too large.
func (t *table) put(b *buffer) error {
	if b.index >= maxIndex {
		return fmt.Errorf("lnetd assigned buffer index %d, which is too large: %w", b.index, syscall.EPROTO)
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
		return fmt.Errorf("lnetd assigned buffer index %d to two buffers: %w", b.index, syscall.EPROTO)
	}
	t.n++
	return nil
}

// remove removes b from the table.
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

// Register implements transport.CoreDomain for any memory (transport 9.3). Memory of Alloc and whole pages of
// private memory are used without copies. All other memory is copied, and so are pages that partly overlap
// those of another buffer, and ranges beyond the limit maxExchanged. If the memory is not from Alloc, no
// goroutine may write to it during Register and Deregister.
//
// Register sends a request to lnetd, unless an idle registration of the same memory exists. It may block
// until ctx ends. It returns EDQUOT if lnetd's limit of buffers or mapped memory is reached, or
// Config.CopyMemory is used up.
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
	b := &buffer{domain: d, token: token, foreign: o}
	for _, s := range segments {
		b.size += len(s)
	}
	if err := d.assignRegistration(ctx, b, shared); err != nil {
		d.store.unshare(o)
		return nil, err
	}
	return b, nil
}

// assignRegistration gives b a registration of segments, which are in the store: an idle registration, or a
// new one from lnetd.
func (d *domain) assignRegistration(ctx context.Context, b *buffer, segments [][]byte) error {
	ranges, pieces, err := d.store.acquire(segments, &d.hello.Limits)
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
		d.store.releasePieces(pieces)
	}
	return err
}

func (d *domain) registration(ctx context.Context, ranges []protocol.Range) (*registration, error) {
	key := rangesKey(ranges)
	if r := d.idle.removeByRanges(key); r != nil {
		if err := d.connection.endReason(); err != nil {
			return nil, err
		}
		return r, nil
	}
	var reply protocol.BufRegisterReply
	request := &protocol.BufRegister{Ranges: ranges}
	err := d.connection.request(ctx, request, &reply, d.undoRegister)
	if errors.Is(err, syscall.EDQUOT) {
		err = d.makeRoom(ctx, func() error { return d.connection.request(ctx, request, &reply, d.undoRegister) })
	}
	if err != nil {
		return nil, err
	}
	return newRegistration(ranges, key, &reply), nil
}

// makeRoom deregisters idle registrations to make room for try, which has failed with EDQUOT. It evicts the
// oldest eighth of them, calls try, and repeats this until try returns another error than EDQUOT, or nil, or
// nothing could be evicted. Only one goroutine at a time evicts. A goroutine that had to wait calls try even
// if it can evict nothing, because the previous goroutine may have made room.
func (d *domain) makeRoom(ctx context.Context, try func() error) error {
	select {
	case d.evicting <- struct{}{}:
		defer func() { <-d.evicting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		all, done := d.idle.evictOldest(), make(chan int, 1)
		d.connection.undoCalls.Go(func() { done <- d.deregisterIdle(all) })
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

// evict deregisters the idle registrations that use the given area.
func (d *domain) evict(area uint32) {
	d.deregisterIdle(d.idle.evict(func(r *registration) bool { _, has := r.areas[area]; return has }))
}

// deregisterIdle deregisters registrations that no buffer uses, and returns how many it has deregistered. If
// lnetd still uses a registration, it becomes idle again. It is evicted later, or ends with the connection.
func (d *domain) deregisterIdle(all []*registration) (n int) {
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

// undoRegister deregisters the buffer of a BUF_REGISTER call whose caller has given up before the reply
// arrived.
func (d *domain) undoRegister(a *call) {
	var reply protocol.BufRegisterReply
	if d.connection.decode(a, &reply) == nil {
		// An error is ignored, because there is no caller to return it to.
		_ = d.deregister(reply.Index, reply.Generation)
	}
}

func (d *domain) deregister(index, generation uint32) error {
	r := protocol.BufDeregister{Index: index, Generation: generation}
	return d.connection.requestAlways(&r, &protocol.Empty{})
}

// Deregister ends the buffer. lnetd keeps the registration, which becomes idle, so that the next buffer with
// the same memory can use it. If there are too many idle registrations, the oldest one is deregistered.
// Deregister returns EBUSY if an op on the buffer is in progress, and EINVAL if the buffer has ended.
func (b *buffer) Deregister() error {
	if t := b.tm.Load(); t != nil && !t.ended() {
		return fmt.Errorf("remote: deregister: %w", errBusy)
	}
	if b.ended.Swap(true) {
		return fmt.Errorf("remote: deregister: %w", errBuffer)
	}
	d := b.domain
	d.table.remove(b) // must precede idle.put, after which another buffer can get the index
	r := *b.registration
	r.operation += b.sequence + 1
	if oldest := d.idle.put(&r, min(maxIdle, int(d.hello.Quotas.Buffers)/2)); oldest != nil {
		d.deregisterIdle([]*registration{oldest})
	}
	d.store.releasePieces(b.pieces)
	d.store.unshare(b.foreign)
	return nil
}
