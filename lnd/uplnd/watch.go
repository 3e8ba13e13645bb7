package uplnd

import (
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

const (
	// watchPeriod is the time between two looks at what a proxy owes.
	watchPeriod = time.Second
	// retryOrders is the time after which orders that found no room in the ring are tried again, unless a
	// report of the proxy comes before.
	retryOrders = 5 * time.Millisecond
)

// watch is a timer that runs while a proxy has something to do. It finds proxies that hang.
type watch struct {
	timer *time.Timer
	due   time.Time // when the timer fires; zero if it is not set
	// unread and read are the numbers of orders at the last look: those in the ring, and those that the proxy has
	// read. since is the time of the last look at which read had changed or the ring was empty.
	unread int
	read   uint64
	since  time.Time
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// arm makes look be called within d. p.mu is held.
func (p *proxyEnd) arm(d time.Duration) {
	w := &p.watch
	if !w.due.IsZero() && (d == watchPeriod || time.Until(w.due) <= d) || p.cause != nil {
		return
	}
	w.due = time.Now().Add(d)
	if w.timer == nil {
		w.timer = time.AfterFunc(d, p.look)
	} else {
		w.timer.Reset(d)
	}
}

// look passes on what has waited for room, and detaches a proxy that hangs.
func (p *proxyEnd) look() {
	timeout := p.ni.Timeout()
	p.mu.Lock()
	p.watch.due = time.Time{}
	err := p.overdue(time.Now())
	if p.sends.Len() > 0 || len(p.arrivals) > 0 || p.watch.unread > 0 {
		if err == nil && p.watch.unread == 0 {
			p.put(&protocol.Entry{Op: protocol.Timeout, Time: uint64(timeout)}) // to see whether it is read
		}
		p.arm(watchPeriod)
	}
	p.unlock()
	if err != nil {
		p.end(err)
		return
	}
	p.flush()
}

// overdue returns an error if the proxy has read no order for longer than Config.Patience. A message may take
// any time, because its peer may be waiting for memory; the proxy itself fails it if the peer does not answer.
// p.mu is held.
func (p *proxyEnd) overdue(now time.Time) error {
	w := &p.watch
	patience := p.ni.server.config.Patience
	if p.cause != nil {
		return nil
	}
	var room int
	var err error
	if fault := memory.Guard(func() { room, err = p.ring.Completions.Room() }); fault != nil {
		return violation("a page of the ring is missing: %w", fault)
	}
	if err != nil {
		return violation("%w", err)
	}
	unread := p.ni.server.config.Entries - room
	read := p.ring.Completions.Stats().Put - uint64(unread)
	if unread == 0 || w.unread == 0 || read != w.read {
		w.since = now
	}
	w.unread, w.read = unread, read
	if now.Sub(w.since) > patience {
		return fmt.Errorf("the proxy has read no order for %v: %w", now.Sub(w.since).Round(time.Second), syscall.ETIMEDOUT)
	}
	return nil
}
