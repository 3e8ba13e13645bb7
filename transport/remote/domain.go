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
	"github.com/lnetd/lnetd/memory/shared"
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
	evicting   chan struct{} // holds an element while a goroutine evicts registrations
	// hello is lnetd's reply to HELLO. clock converts lnetd's times. descriptorSize is Limits.DescriptorSize.
	hello          protocol.HelloReply
	clock          shared.Clock
	descriptorSize atomic.Int64
	// timers counts pending and running calls of tm.checkLiveness and tm.moveBacklog.
	timers sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	tms        map[*tm]struct{}
	endError   error // why the connection has ended; nil while it works
	events     int   // number of completions for which the TMs have room; see tm.Grow
	endedStats Stats // sum of the statistics of TMs that have ended
}

// newDomain returns a domain for a new connection.
func newDomain(c *Core, socket *net.UnixConn) *domain {
	d := &domain{core: c, tms: make(map[*tm]struct{}), evicting: make(chan struct{}, 1)}
	d.connection = newConnection(socket, c.config.Patience, d.notice, d.failTMs)
	d.store = newStore(d.connection, unix.Getpagesize(), c.config.CopyMemory, c.exchange, d.evict)
	d.connection.start()
	return d
}

// Limits returns lnetd's limits. DescriptorSize grows when lnetd reports a new limit or a TM starts at a
// large NID.
func (d *domain) Limits() transport.Limits {
	l := d.hello.Limits
	return transport.Limits{
		BufferSize: int(l.BufferSize), SegmentSize: int(l.SegmentSize), Segments: int(l.Segments),
		DescriptorSize: int(d.descriptorSize.Load()), Confine: true, Synchronous: true,
		PageSize: d.store.page, CopyMemory: d.store.maxCopied,
	}
}

// longerDescriptors raises descriptorSize to size, unless it is already at least that.
func (d *domain) longerDescriptors(size int64) {
	for old := d.descriptorSize.Load(); old < size && !d.descriptorSize.CompareAndSwap(old, size); {
		old = d.descriptorSize.Load()
	}
}

// NIDs returns the NIDs of lnetd's node. It may block until ctx ends.
func (d *domain) NIDs(ctx context.Context) ([]lnet.NID, error) {
	var reply protocol.NIDsReply
	if err := d.connection.request(ctx, &protocol.NIDsGet{}, &reply, nil); err != nil {
		return nil, err
	}
	return reply.NIDs, nil
}

// Alloc returns memory that is shared with lnetd. It sends a request to lnetd only if no existing area has
// enough free memory. It returns EDQUOT if the limit of mapped memory of this program or user is reached.
func (d *domain) Alloc(ctx context.Context, n int) ([]byte, error) {
	b, err := d.store.alloc(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("remote: allocate %d bytes: %w", n, err)
	}
	return b, nil
}

// Free releases memory of Alloc.
func (d *domain) Free(b []byte) error {
	if err := d.store.release(b); err != nil {
		return fmt.Errorf("remote: free %d bytes: %w", len(b), err)
	}
	return nil
}

// failTMs makes all TMs fail with err, because the connection has ended.
func (d *domain) failTMs(err error) {
	d.mu.Lock()
	d.endError = err
	tms := d.list()
	d.mu.Unlock()
	for _, t := range tms {
		t.markLost(err)
	}
}

// list returns all TMs of the domain. mu is held.
func (d *domain) list() []*tm {
	tms := make([]*tm, 0, len(d.tms))
	for t := range d.tms {
		tms = append(tms, t)
	}
	return tms
}

// GoingDown is the Diagnostic of a TM event that is delivered when lnetd has announced its end (transport
// 9.10). Operations in progress may still complete. When lnetd has ended, the TM fails.
type GoingDown struct {
	// In is the maximum time until lnetd ends.
	In time.Duration
	// Text is an explanation from lnetd or its administrator. It may be empty.
	Text string
}

// String returns a text such as "lnetd ends in 5s: upgrade".
func (g GoingDown) String() string {
	s := fmt.Sprintf("lnetd ends in %v", g.In)
	if g.Text != "" {
		s += ": " + g.Text
	}
	return s
}

// notice processes a notice of lnetd: a new limit, or the announcement of its end.
func (d *domain) notice(n *protocol.Notice) {
	switch n.Kind {
	case protocol.NoticeLimits:
		d.longerDescriptors(int64(n.Value))
	case protocol.NoticeGoingDown:
		d.mu.Lock()
		tms := d.list()
		d.mu.Unlock()
		for _, t := range tms {
			t.reportGoingDown(GoingDown{In: time.Duration(n.Value) * time.Second, Text: n.Text})
		}
	}
}

// Close releases the domain's remaining memory and ends the connection. It waits for lnetd's replies, but
// ends the connection when lnetd is silent for Config.Patience. It returns EBUSY if TMs, buffers or memory
// are still in use.
func (d *domain) Close() error {
	d.mu.Lock()
	tms := len(d.tms)
	d.mu.Unlock()
	if buffers, memory := d.table.len(), d.store.inUse(); tms > 0 || buffers > 0 || memory {
		still := "no allocated memory"
		if memory {
			still = "allocated memory"
		}
		return fmt.Errorf("remote: close domain: it still has %d TMs, %d buffers and %s: %w", tms, buffers, still, syscall.EBUSY)
	}
	d.connection.waitAllUndone()
	d.store.removeAllAreas()
	d.connection.close()
	d.timers.Wait()
	d.core.removeDomain(d)
	if err := d.store.close(); err != nil {
		return fmt.Errorf("remote: close: %w", err)
	}
	return nil
}
