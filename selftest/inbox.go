package selftest

import (
	"context"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// Numbers of request buffers (selftest 1, 4.8). A portal always has baseBuffers posted, so that requests
// for services that are not loaded are dropped. Otherwise they would hold up their connection and
// everything behind them. A server test adds serverBuffers, or its loop count (at most the work items)
// plus buffersMargin, whichever is larger. A portal has at most maxBuffers.
const (
	baseBuffers   = 256
	serverBuffers = 256
	buffersMargin = 64
	maxBuffers    = 8192
)

// waitingPart is the divisor of MaxServing: beyond MaxServing/waitingPart, requests wait at their senders.
const waitingPart = 4

// inbox manages the posted request buffers of a portal and the requests being served. A buffer that
// receives a request is replaced at once, unless too many requests are being served. Then further
// requests wait at their senders, since the portal is lazy. They must not wait while requests being
// served wait for data from their clients: the data may follow the next request on the same connection,
// so that nothing would make progress. In that case more requests are accepted, and those beyond
// MaxServing are dropped.
type inbox struct {
	agent  *Agent
	portal uint32
	serve  func(*inbound) // called in a handler; owns the request

	mu      sync.Mutex // guards the rest
	wanted  int        // buffers that should be posted
	posting bool
	closed  bool
	posted  ring.Ring[inbound] // waiting for requests
	busy    ring.Ring[inbound] // being served
	waiting int                // number of busy ones that wait for data
	free    ring.Ring[inbound]
	deaf    chan struct{} // closed when no buffer is posted any more after close
	idle    chan struct{} // closed when no request is being served either
}

func newInbox(a *Agent, portal uint32, serve func(*inbound)) *inbox {
	return &inbox{agent: a, portal: portal, serve: serve, deaf: make(chan struct{}), idle: make(chan struct{})}
}

// add changes the number of buffers that should be posted by n.
func (b *inbox) add(n int) error {
	b.mu.Lock()
	b.wanted += n
	var surplus []lnet.Handle
	most := min(b.wanted, maxBuffers)
	for in := range b.posted.All() {
		if len(surplus) >= b.posted.Len()-most {
			break
		}
		if in.known {
			surplus = append(surplus, in.handle)
		}
	}
	b.mu.Unlock()
	for _, h := range surplus {
		_ = b.agent.node.Unlink(h) // not found if a request has arrived
	}
	return b.post()
}

// post posts the missing buffers. Only one goroutine does so at a time: a new buffer may receive a
// waiting request at once, whose handler also calls post.
func (b *inbox) post() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.posting {
		return nil
	}
	b.posting = true
	defer func() { b.posting = false }()
	for b.short() {
		in := b.free.First()
		if in == nil {
			in = newInbound(b)
		} else {
			b.free.Remove(&in.links)
		}
		b.posted.Add(in, &in.links)
		in.serial++
		in.known = false
		serial := in.serial
		b.mu.Unlock()
		h, err := b.agent.node.Attach(portals.Entry{
			Portal: b.portal, IgnoreBits: ^uint64(0), Position: portals.After,
		}, portals.MD{
			Bytes: in.request[:], Threshold: 1, Unlink: true,
			Options: portals.OpPut | portals.Truncate, Handler: (*requestEvents)(in),
		})
		b.mu.Lock()
		if err != nil {
			if !in.gone {
				b.posted.Remove(&in.links)
				b.keep(in)
			}
			return err
		}
		if in.serial == serial {
			in.handle, in.known = h, true
		}
		if b.closed { // close did not see this handle
			b.mu.Unlock()
			_ = b.agent.node.Unlink(h) // not found if a request has arrived
			b.mu.Lock()
		}
	}
	return nil
}

// short reports whether a buffer should be posted. The caller holds b.mu.
func (b *inbox) short() bool {
	if b.closed || b.posted.Len() >= min(b.wanted, maxBuffers) {
		return false
	}
	most, have := b.agent.config.MaxServing, b.posted.Len()+b.busy.Len()
	if b.waiting > 0 {
		return have < most || b.posted.Len() == 0
	}
	return have < max(most/waitingPart, 1)
}

// await adds n to the number of requests that wait for data.
func (b *inbox) await(n int) {
	b.mu.Lock()
	b.waiting += n
	short := b.posted.Len() == 0 && b.short()
	b.mu.Unlock()
	if short {
		_ = b.post() // fails only if the node is closed
	}
}

// keep returns an inbound that is in no ring to the free list. The caller holds b.mu.
func (b *inbox) keep(in *inbound) {
	in.serial++
	in.known = false
	b.free.Add(in, &in.links)
	b.notifyDone()
}

// notifyDone closes deaf and idle when their conditions hold. The caller holds b.mu.
func (b *inbox) notifyDone() {
	if b.closed && b.posted.Len() == 0 {
		closeOnce(b.deaf)
		if b.busy.Len() == 0 {
			closeOnce(b.idle)
		}
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// requestEvents is an inbound as the event handler of its posted buffer.
type requestEvents inbound

// HandleEvent implements portals.Handler.
func (r *requestEvents) HandleEvent(e *portals.Event) {
	in := (*inbound)(r)
	b := in.inbox
	b.mu.Lock()
	if in.gone {
		b.mu.Unlock()
		return
	}
	b.posted.Remove(&in.links)
	if e.Type == portals.EventUnlink { // unlinked, or the node is closed
		b.keep(in)
		b.mu.Unlock()
		return
	}
	in.reset()
	b.busy.Add(in, &in.links)
	b.notifyDone() // it may have been the last posted buffer
	excess := b.busy.Len() > b.agent.config.MaxServing
	b.mu.Unlock()
	_ = b.post() // fails only if the node is closed
	if excess {
		b.agent.counters.Received.Add(1)
		in.drop()
		return
	}
	in.arrived(e)
}

// release takes back a request that has been served.
func (b *inbox) release(in *inbound) {
	b.mu.Lock()
	b.busy.Remove(&in.links)
	b.keep(in)
	starved := b.short()
	b.mu.Unlock()
	if starved {
		_ = b.post() // fails only if the node is closed
	}
}

// abort ends the RPCs of all current requests without a reply.
func (b *inbox) abort() {
	type victim struct {
		in     *inbound
		serial uint64
	}
	b.mu.Lock()
	victims := make([]victim, 0, b.busy.Len())
	for in := range b.busy.All() {
		victims = append(victims, victim{in, in.serial})
	}
	b.mu.Unlock()
	for _, v := range victims {
		v.in.abort(v.serial)
	}
}

// close unlinks all posted buffers. If gone is set, the node is closed and no event reports the end of
// the buffers.
func (b *inbox) close(gone bool) {
	b.mu.Lock()
	b.closed = true
	handles := make([]lnet.Handle, 0, b.posted.Len())
	for in := range b.posted.All() {
		switch {
		case gone:
			b.posted.Remove(&in.links)
			in.gone = true // the node may still use it for a while
		case in.known:
			handles = append(handles, in.handle)
		}
	}
	b.notifyDone()
	b.mu.Unlock()
	for _, h := range handles {
		_ = b.agent.node.Unlink(h) // not found if a request has arrived
	}
}

// wait waits until c is closed or ctx is done.
func (b *inbox) wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// buffers returns how many buffers a server test adds (selftest 4.8).
func (c *Config) buffers(s message.Service, loop uint32) int {
	items := c.BRWWorkItems
	if s == message.ServicePing {
		items = c.PingWorkItems
	}
	return max(serverBuffers, int(min(int64(items), int64(loop)))+buffersMargin)
}
