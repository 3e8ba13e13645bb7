package uplnd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// ni implements lnd.Interface, lnd.LinkExplainer and lnd.Tuner.
type ni struct {
	server *Server
	config lnd.Config
	proxy  string // name of the proxies that may serve the NI; "": any
	// options are the tunables in force.
	options atomic.Pointer[options]
	log     *boundedlog.Log
	// ownLog is what log is derived from, or nil if that is the server's.
	ownLog *boundedlog.Log
	// refused is the last refusal or cut-off of a proxy since one was attached or has left, or nil.
	refused atomic.Pointer[refusal]
	// out makes the completions of messages to be sent, so that a completion that sends again leads to iteration.
	out peering.Outbox
	// routes says which proxy has a PID. The map is replaced, never changed.
	routes atomic.Pointer[map[lnet.PID]*proxyEnd]
	up     atomic.Bool // a proxy can carry traffic
	count  counters

	mu      sync.Mutex // guards the fields below
	closed  bool
	proxies []*proxyEnd
	// retired are PIDs of proxies that are gone, until they may be allocated again.
	retired map[lnet.PID]time.Time
	// links and stalls serialize upcalls: LinkChanged with the look at the proxies that precedes it, and
	// PeerStalled.
	links, stalls sync.Mutex
}

// counters count what Counters returns.
type counters struct {
	attached, detached, cutOff, sent, received, copied, queued atomic.Uint64
}

func newNI(d *Driver, c *lnd.Config) *ni {
	i := &ni{server: d.server, config: *c, proxy: d.proxy, log: d.server.log, retired: make(map[lnet.PID]time.Time)}
	if c.Logger != nil {
		i.ownLog = boundedlog.New(c.Logger)
		i.log = i.ownLog
	}
	i.log = i.log.With("nid", c.NID.String())
	usual, _ := Defaults()
	i.config.Tunables = c.Tunables.Or(usual)
	i.out.Make = func(e *peering.Event) {
		m := e.Subject.(*lnd.Tx)
		m.Done.Sent(m, e.Err)
	}
	i.routes.Store(&map[lnet.PID]*proxyEnd{})
	return i
}

func (i *ni) NID() lnet.NID               { return i.config.NID }
func (i *ni) Device() string              { return i.config.Device }
func (i *ni) LargeNIDs() bool             { return true }
func (i *ni) Tunables() lnd.Tunables      { return i.config.Tunables }
func (i *ni) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }

// Link implements lnd.Interface.
func (i *ni) Link() lnd.LinkState {
	if i.up.Load() {
		return lnd.LinkUp
	}
	return lnd.LinkDown
}

// Counters implements lnd.Interface.
func (i *ni) Counters() []lnd.Counter {
	c := &i.count
	return []lnd.Counter{
		{Name: "proxies", Value: uint64(len(i.attached())), Help: "Proxies that are attached to the NI."},
		{Name: "attached_total", Value: c.attached.Load(), Help: "Times that a proxy was attached."},
		{Name: "detached_total", Value: c.detached.Load(), Help: "Times that a proxy has left or died."},
		{Name: "cut_off_total", Value: c.cutOff.Load(), Help: "Proxies that were cut off because they broke the protocol or did not answer."},
		{Name: "messages_sent_total", Value: c.sent.Load(), Help: "Messages that proxies have sent."},
		{Name: "messages_received_total", Value: c.received.Load(), Help: "Messages that proxies have received."},
		{Name: "copied_bytes_total", Value: c.copied.Load(), Help: "Bytes of payload copied from or to memory shared with proxies."},
		{Name: "queued_total", Value: c.queued.Load(), Help: "Messages that waited for a buffer or for room in a proxy's ring."},
	}
}

// attached returns the proxies.
func (i *ni) attached() []*proxyEnd {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.proxies)
}

// Send implements lnd.Interface. The destination's PID selects the proxy (UP-8, UP-9). The PID of another next
// hop than the destination is that of a node. A message to the NI itself fails, because proxies have no such peer.
func (i *ni) Send(m *lnd.Tx) {
	p := (*i.routes.Load())[m.To.PID]
	switch {
	case m.To.NID == i.config.NID:
		i.fail(m, lnd.StatusRemoteDropped, errToItself)
	case p == nil:
		i.fail(m, lnd.StatusRemoteDropped, i.unserved(m.To.PID))
	default:
		p.send(m)
	}
}

// errToItself is the error of a message to the NI that it is sent from.
var errToItself = fmt.Errorf("proxies carry no messages from an NI to itself: %w", lnd.ErrUnreachable)

// unserved returns the error of a message to a PID that no proxy has.
func (i *ni) unserved(pid lnet.PID) error {
	if cause := i.LinkCause(); cause != "" {
		return fmt.Errorf("%s: %w", cause, lnd.ErrUnreachable)
	}
	return fmt.Errorf("no proxy has PID %d: %w", pid, lnd.ErrUnreachable)
}

// failedSend returns the event that completes m with an error.
func failedSend(m *lnd.Tx, s lnd.Status, err error) peering.Event {
	return peering.Event{Kind: peering.OwnEvents, Subject: m, Err: failure("send", m.To.NID, s, err)}
}

// fail completes m with an error.
func (i *ni) fail(m *lnd.Tx, s lnd.Status, err error) {
	if i.isClosed() {
		s, err = lnd.StatusRemoteDropped, lnd.ErrClosed
	}
	i.out.Add(failedSend(m, s, err))
}

func (i *ni) isClosed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.closed
}

// Receive implements lnd.Interface.
func (i *ni) Receive(m *lnd.Rx, place lnd.Placement) {
	a := m.Driver.(*arrival)
	a.from.place(a, place)
}

// Disconnect implements lnd.Interface.
func (i *ni) Disconnect(peer lnet.NID) {
	for _, p := range i.attached() {
		p.disconnect(peer)
	}
}

// Recall implements lnd.Interface.
func (i *ni) Recall(peer lnet.NID, match func(m *lnd.Tx) bool) {
	for _, p := range i.attached() {
		p.recall(peer, match)
	}
}

// LinkBack implements lnd.Interface.
func (i *ni) LinkBack(peer lnet.NID) {
	for _, p := range i.attached() {
		p.order(&protocol.Entry{Op: protocol.LinkBack, Peer: lnet.ProcessID{NID: peer}})
	}
}

// Probe implements lnd.Interface.
func (i *ni) Probe(peer lnet.NID) bool {
	known := false
	for _, p := range i.attached() {
		known = p.probe(peer) || known
	}
	return known
}

// Close implements lnd.Interface.
func (i *ni) Close(ctx context.Context) error {
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		return lnd.ErrClosed
	}
	i.closed = true
	proxies := slices.Clone(i.proxies)
	i.mu.Unlock()
	i.server.leave(i)
	for _, p := range proxies {
		p.end(errClosing)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range proxies {
			<-p.ended
		}
		i.out.Wait()
		if i.ownLog != nil {
			i.ownLog.End()
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("uplnd: close "+i.config.NID.String()+": upcalls are still running"), ctx.Err())
	}
}

// enter adds a proxy that is attached. It returns ENODEV if the NI is closed.
func (i *ni) enter(p *proxyEnd) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return fmt.Errorf("NI %s is being closed: %w", i.config.NID, syscall.ENODEV)
	}
	i.proxies = append(i.proxies, p)
	i.count.attached.Add(1)
	return nil
}

// leave removes a proxy and its PIDs, which are not allocated again for a while: messages to them may still be
// on the way.
func (i *ni) leave(p *proxyEnd) {
	i.mu.Lock()
	i.proxies = slices.DeleteFunc(i.proxies, func(q *proxyEnd) bool { return q == p })
	i.releaseRetired()
	routes := maps.Clone(*i.routes.Load())
	for pid, q := range routes {
		if q == p {
			delete(routes, pid)
			if pid&lnet.PIDUserFlag != 0 && len(i.retired) < maxRetired {
				i.retired[pid] = time.Now().Add(pidQuarantine)
			}
		}
	}
	i.routes.Store(&routes)
	i.mu.Unlock()
	i.count.detached.Add(1)
	i.checkLink()
}

// checkLink reports the link's state to the node if it has changed.
func (i *ni) checkLink() {
	i.links.Lock()
	defer i.links.Unlock()
	up := false
	for _, p := range i.attached() {
		up = up || p.ready.Load()
	}
	if i.up.Swap(up) != up && !i.isClosed() {
		i.config.Upper.LinkChanged(i.Link())
	}
}
