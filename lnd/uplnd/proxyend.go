package uplnd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/shared"
)

// Reasons why a proxy is detached.
var (
	errClosing = fmt.Errorf("the NI is shut down: %w", syscall.ESHUTDOWN)
	errGone    = errors.New("the proxy has closed its connection")
)

// violation returns the error of a proxy that breaks the protocol.
func violation(format string, args ...any) error {
	return fmt.Errorf("the proxy broke the protocol: %w: %w", fmt.Errorf(format, args...), syscall.EPROTO)
}

// proxyEnd is lnetd's end of a proxy's connection.
type proxyEnd struct {
	Proxy
	ni       *ni
	conn     *net.UnixConn
	ring     *shared.Host
	area     *shared.Memory
	here     *protocol.Buffers // lnetd's half of the area
	there    *protocol.Buffers // the proxy's; it is only asked for its bounds
	entry    [protocol.EntrySize]byte
	ready    atomic.Bool // the proxy can carry traffic
	traffic  traffic
	pids     int           // number of its PIDs; guarded by ni.mu
	ended    chan struct{} // closed when everything of the proxy is complete and no goroutine remains
	mu       sync.Mutex    // guards the fields below
	cause    error         // why the proxy is detached; nil while it is attached
	sends    protocol.Handles[sending]
	waiting  []*lnd.Tx        // for a buffer or for room, urgent ones first
	used     map[lnet.NID]int // bytes of the buffers in here, by peer
	filling  int              // messages whose payload is being copied
	draining bool             // a goroutine moves waiting messages to the ring
	orders   []protocol.Entry // that found no room in the ring
	// published means that an order was put into the ring after the last unlock.
	published bool
	arrivals  map[uint64]*arrival
	peers     map[lnet.NID]struct{} // that the proxy has exchanged messages with
	users     int                   // goroutines that copy from or to the area, or complete what they have copied
	unused    sync.Cond             // of mu: users is 0
	released  bool                  // the area must not be used any more
	watch     watch
}

// bytes returns a part of the area.
func (p *proxyEnd) bytes(offset uint64, n int) []byte { return p.area.Bytes()[offset:][:n] }

// copyPayload calls f, which copies n bytes between the area and other memory. It returns an error if pages of
// either are missing.
func (p *proxyEnd) copyPayload(n int, f func()) error {
	if n == 0 {
		return nil
	}
	p.ni.count.copied.Add(uint64(n))
	if fault := memory.Guard(f); fault != nil {
		return fault
	}
	return nil
}

// unuse ends a use of the area. p.mu is held.
func (p *proxyEnd) unuse() {
	if p.users--; p.users == 0 {
		p.unused.Broadcast()
	}
}

// order puts an order into the ring and wakes the proxy.
func (p *proxyEnd) order(e *protocol.Entry) {
	p.mu.Lock()
	p.put(e)
	p.unlock()
}

// put puts an order into the ring, behind those that wait for room. p.mu is held.
func (p *proxyEnd) put(e *protocol.Entry) {
	switch {
	case p.cause != nil, len(p.orders) == 0 && p.putNow(e):
	case len(p.orders) < p.ni.server.config.maxOrders():
		p.orders = append(p.orders, *e)
		p.arm(retryOrders)
	default:
		go p.end(fmt.Errorf("%d orders wait for room in the ring: %w", len(p.orders), syscall.ETIMEDOUT)) // not with p.mu held
	}
}

// putNow puts an order into the ring if there is room. p.mu is held.
func (p *proxyEnd) putNow(e *protocol.Entry) (done bool) {
	fault := memory.Guard(func() {
		b, err := p.ring.Completions.Slot()
		if err != nil {
			go p.end(violation("%w", err)) // not with p.mu held
		}
		if b != nil {
			e.Put((*[protocol.EntrySize]byte)(b))
			p.ring.Completions.Advance()
			p.ring.Completions.Publish()
			p.published, done = true, true
		}
	})
	return done && fault == nil
}

// unlock releases p.mu, and wakes the proxy if it sleeps and an order was put into the ring.
func (p *proxyEnd) unlock() {
	var wake shared.Wakeup
	if p.published && p.cause == nil {
		p.published = false
		_ = memory.Guard(func() { wake = p.ring.Completions.Claim() })
	}
	p.mu.Unlock()
	p.ring.Completions.Wake(wake)
}

// flush moves orders into the ring that found no room, and then messages that wait.
func (p *proxyEnd) flush() {
	p.mu.Lock()
	n := 0
	for n < len(p.orders) && p.cause == nil && p.putNow(&p.orders[n]) {
		n++
	}
	if n == len(p.orders) {
		p.orders = p.orders[:0]
	} else {
		p.orders = append(p.orders[:0], p.orders[n:]...)
		p.arm(retryOrders)
	}
	p.unlock()
	p.drain()
}

// end detaches the proxy. It does not block, and later calls have no effect. The proxy's reader then completes
// everything.
func (p *proxyEnd) end(cause error) {
	p.mu.Lock()
	detached := p.cause != nil
	if !detached {
		p.cause = cause
		p.watch.stop()
	}
	p.mu.Unlock()
	if detached {
		return
	}
	if !errors.Is(cause, errGone) {
		p.tell(cause)
	}
	_ = p.conn.CloseRead()
	p.ring.Shut()
}

// tell sends the reason why it is detached to the proxy, if its socket has room.
func (p *proxyEnd) tell(cause error) {
	record := failureRecord(cause)
	if raw, err := p.conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.Sendto(int(fd), record, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		})
	}
}

// detached returns why the proxy is detached, or nil.
func (p *proxyEnd) detached() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// run serves the proxy until it is detached.
func (p *proxyEnd) run() {
	var socket sync.WaitGroup
	socket.Go(func() {
		var b [1]byte
		if n, _ := p.conn.Read(b[:]); n > 0 {
			p.end(violation("a second record on the socket"))
		}
		p.end(errGone)
	})
	p.end(p.read())
	socket.Wait()
	p.finish()
	close(p.ended)
}

// finish completes everything that the proxy had, and releases its memory.
func (p *proxyEnd) finish() {
	p.ready.Store(false)
	p.mu.Lock()
	for p.users > 0 {
		p.unused.Wait()
	}
	p.released = true
	cause := p.cause
	p.mu.Unlock()
	closing := errors.Is(cause, errClosing)
	if !closing {
		p.noteEnd(cause)
		p.losePeers(cause)
	}
	p.ni.leave(p)
	p.failSends(closing, cause)
	p.endArrivals(failure("receive", lnet.NID{}, lnd.StatusRemoteError, cause))
	_ = p.conn.Close()
	_ = p.ring.Close()
	_ = p.area.Close()
}

// noteEnd logs why the proxy ends, and keeps a cut-off as the reason why the NI has no proxy.
func (p *proxyEnd) noteEnd(cause error) {
	of := boundedlog.About("proxy", p.Name)
	attrs := []slog.Attr{slog.Int("pid", int(p.PID)), slog.Uint64("uid", uint64(p.UID)), slog.Any("cause", cause)}
	if errors.Is(cause, errGone) {
		p.ni.refused.Store(nil)
		p.ni.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "a proxy has closed its connection; its messages fail", Of: of}, attrs...)
		return
	}
	p.ni.refused.Store(&refusal{p.Proxy, time.Now(), "was cut off", cause})
	p.ni.count.cutOff.Add(1)
	p.ni.server.punish(p.UID)
	p.ni.log.Report(boundedlog.Line{
		Level: slog.LevelWarn, Of: of, Text: "a proxy was cut off; its messages fail, and processes of its uid cannot attach for a while",
	}, attrs...)
}

// losePeers reports that the peers of the proxy are lost, before messages to them fail.
func (p *proxyEnd) losePeers(cause error) {
	p.mu.Lock()
	p.sends.All(func(_ uint64, s sending) { p.notePeer(s.message.To) })
	for _, m := range p.waiting {
		p.notePeer(m.To)
	}
	peers := p.peers
	p.peers = make(map[lnet.NID]struct{})
	p.mu.Unlock()
	upper := p.ni.config.Upper
	others := slices.DeleteFunc(p.ni.attached(), func(q *proxyEnd) bool { return q == p })
	for nid := range peers {
		if slices.ContainsFunc(others, func(q *proxyEnd) bool { return q.knows(nid) }) {
			continue // reached in another way
		}
		upper.ConnectionsLost(nid)
		upper.PeerDown(lnd.PeerDown{Peer: nid, Err: failure("connect", nid, lnd.StatusRemoteError, cause)})
	}
}

// failSends completes all messages to be sent. The proxy may have sent those that it had.
func (p *proxyEnd) failSends(closing bool, cause error) {
	p.mu.Lock()
	had, unseen := lnd.StatusRemoteError, lnd.StatusRemoteDropped
	if closing {
		had, cause = lnd.StatusRemoteDropped, lnd.ErrClosed
	}
	var events []peering.Event
	add := func(m *lnd.Tx, s lnd.Status) {
		events = append(events, failedSend(m, s, cause))
	}
	p.sends.All(func(_ uint64, s sending) { add(s.message, had) })
	for _, m := range p.waiting {
		add(m, unseen)
	}
	p.sends, p.waiting = protocol.Handles[sending]{}, nil
	p.mu.Unlock()
	p.ni.out.Add(events...)
	p.ni.out.Wait()
}
