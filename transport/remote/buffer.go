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
	domain            *domain
	token             any
	size              int
	index, generation uint32
	pieces            []*piece
	ended             atomic.Bool

	// tm is the one of the op, nil if there is none. It is changed with that TM's mu held,
	// and so who holds the mu of the TM that it names may look at the rest.
	tm       atomic.Pointer[tm]
	sequence uint32
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

// Register takes memory that lies in what Alloc gave, and no other: EINVAL (transport 9.3).
// It asks lnetd, and blocks until ctx ends. EDQUOT: lnetd knows as many buffers as it may.
func (d *domain) Register(ctx context.Context, segments [][]byte, token any) (transport.CoreBuffer, error) {
	b, err := d.register(ctx, segments, token)
	if err != nil {
		return nil, fmt.Errorf("remote: register %d segments: %w", len(segments), err)
	}
	return b, nil
}

func (d *domain) register(ctx context.Context, segments [][]byte, token any) (*buffer, error) {
	ranges, pieces, err := d.store.hold(segments, &d.agreed.Limits)
	if err != nil {
		return nil, err
	}
	var reply protocol.BufRegisterReply
	if err := d.connection.ask(ctx, &protocol.BufRegister{Ranges: ranges}, &reply, d.undoRegister); err != nil {
		d.store.letGo(pieces)
		return nil, err
	}
	b := &buffer{domain: d, token: token, index: reply.Index, generation: reply.Generation, pieces: pieces}
	for _, s := range segments {
		b.size += len(s)
	}
	if err := d.table.put(b); err != nil {
		d.store.letGo(pieces)
		d.connection.fail(err)
		return nil, err
	}
	return b, nil
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

// Deregister ends the buffer. It asks lnetd. EBUSY: an op on it is under way; EINVAL: it has
// ended. After another error it can be called again.
func (b *buffer) Deregister() error {
	if t := b.tm.Load(); t != nil && !t.over() {
		return fmt.Errorf("remote: deregister: %w", errBusy)
	}
	if b.ended.Swap(true) {
		return fmt.Errorf("remote: deregister: %w", errBuffer)
	}
	d := b.domain
	d.table.remove(b) // before another one can have the index
	if err := d.deregister(b.index, b.generation); err != nil && !gone(err) {
		if again := d.table.put(b); again != nil {
			d.connection.fail(again)
			err = errors.Join(err, again)
		}
		b.ended.Store(false)
		return fmt.Errorf("remote: deregister: %w", err)
	}
	d.store.letGo(b.pieces)
	return nil
}
