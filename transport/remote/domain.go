package remote

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// domain is a CoreDomain: a connection to lnetd.
type domain struct {
	core       *Core
	connection *connection
	store      *store
	table      table
	idle       idle
	evicting   chan struct{} // held by a goroutine that makes room for a registration
	// agreed is what lnetd has said to HELLO, clock its clock.
	agreed         protocol.HelloReply
	clock          clock
	descriptorSize atomic.Int64
	// looks are the calls of tm.look that are due or under way.
	looks sync.WaitGroup

	mu   sync.Mutex // guards the rest
	tms  map[*tm]struct{}
	gone error // why lnetd answers no more
	past Stats // of TMs that have ended
}

// newDomain makes one of a connection, on which nothing was said yet.
func newDomain(c *Core, socket *net.UnixConn) *domain {
	d := &domain{core: c, tms: make(map[*tm]struct{}), evicting: make(chan struct{}, 1)}
	d.connection = newConnection(socket, c.config.Patience, d.notice, d.lost)
	d.store = newStore(d.connection, unix.Getpagesize(), c.config.CopyMemory, c.exchange, d.evict)
	d.connection.start()
	return d
}

// Limits are what lnetd has said. Descriptors get longer when it says so, or when a TM
// starts at a large NID: whichever is first.
func (d *domain) Limits() transport.Limits {
	l := d.agreed.Limits
	return transport.Limits{
		BufferSize: int(l.BufferSize), SegmentSize: int(l.SegmentSize), Segments: int(l.Segments),
		DescriptorSize: int(d.descriptorSize.Load()), Confine: true, Synchronous: true,
		PageSize: d.store.page, CopyMemory: d.store.copyMost,
	}
}

// longerDescriptors raises the size of descriptors.
func (d *domain) longerDescriptors(size int64) {
	for old := d.descriptorSize.Load(); old < size && !d.descriptorSize.CompareAndSwap(old, size); {
		old = d.descriptorSize.Load()
	}
}

// NIDs are those of lnetd's node. It blocks until ctx ends.
func (d *domain) NIDs(ctx context.Context) ([]lnet.NID, error) {
	var reply protocol.NIDsReply
	if err := d.connection.ask(ctx, &protocol.NIDsGet{}, &reply, nil); err != nil {
		return nil, err
	}
	return reply.NIDs, nil
}

// Alloc gives memory that lnetd has mapped, too. Once in a while it has to make some.
// EDQUOT: lnetd maps no more of this program, or of this user.
func (d *domain) Alloc(ctx context.Context, n int) ([]byte, error) {
	b, err := d.store.alloc(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("remote: allocate %d bytes: %w", n, err)
	}
	return b, nil
}

// Free takes back what Alloc gave.
func (d *domain) Free(b []byte) error {
	if err := d.store.release(b); err != nil {
		return fmt.Errorf("remote: free %d bytes: %w", len(b), err)
	}
	return nil
}

// lost has all TMs fail, since lnetd answers no more.
func (d *domain) lost(err error) {
	d.mu.Lock()
	d.gone = err
	tms := d.list()
	d.mu.Unlock()
	for _, t := range tms {
		t.fall(err)
	}
}

// list is all TMs. mu is held.
func (d *domain) list() []*tm {
	tms := make([]*tm, 0, len(d.tms))
	for t := range d.tms {
		tms = append(tms, t)
	}
	return tms
}

// GoingDown is the Diagnostic of a TM event: lnetd is about to end, and has said so
// (transport 9.10). What is under way may end well until then. What follows is StateFailed.
type GoingDown struct {
	// In is how long lnetd waits with it, at most.
	In time.Duration
	// Text is what its user, or it, says of that; it may be empty.
	Text string
}

// String is like "lnetd ends in 5s: upgrade".
func (g GoingDown) String() string {
	s := fmt.Sprintf("lnetd ends in %v", g.In)
	if g.Text != "" {
		s += ": " + g.Text
	}
	return s
}

// notice hears what lnetd says.
func (d *domain) notice(n *protocol.Notice) {
	switch n.Kind {
	case protocol.NoticeLimits:
		d.longerDescriptors(int64(n.Value))
	case protocol.NoticeGoingDown:
		d.mu.Lock()
		tms := d.list()
		d.mu.Unlock()
		for _, t := range tms {
			t.hear(GoingDown{In: time.Duration(n.Value) * time.Second, Text: n.Text})
		}
	}
}

// Close gives back what memory is kept for the next Alloc, and ends the connection, so that
// lnetd finds nothing left. It waits for that as long as lnetd is not silent for
// Config.Patience. EBUSY: there are TMs, buffers or memory in use yet.
func (d *domain) Close() error {
	d.mu.Lock()
	tms := len(d.tms)
	d.mu.Unlock()
	if buffers, memory := d.table.len(), d.store.inUse(); tms > 0 || buffers > 0 || memory {
		return fmt.Errorf("remote: close a domain with %d TMs, %d buffers, memory %v: %w", tms, buffers, memory, syscall.EBUSY)
	}
	d.connection.settleAll()
	d.store.giveUp()
	d.connection.close()
	d.looks.Wait()
	d.core.forget(d)
	if err := d.store.close(); err != nil {
		return fmt.Errorf("remote: close: %w", err)
	}
	return nil
}
