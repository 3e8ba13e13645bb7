package selftest

import (
	"context"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// Numbers of request buffers (selftest 1, 4.8). A portal always has baseBuffers posted, so that requests for
// services that are not loaded are received and dropped. Otherwise such a request would hold up its
// connection and everything behind it. A server test adds a number of buffers: serverBuffers, or its loop
// count (at most the work items) plus buffersMargin, whichever is larger. A portal has at most maxBuffers.
const (
	baseBuffers   = 256
	serverBuffers = 256
	buffersMargin = 64
	maxBuffers    = 8192
)

// waitingPart is the divisor of MaxServing that yields the number of served requests from which on further
// requests wait at their senders.
const waitingPart = 4

// inbox manages the posted request buffers of a portal and the requests being served. When a buffer receives
// a request, another one is posted, unless too many requests are being served. In that case further requests
// wait at their senders, because the portal is lazy. But requests must not wait there while requests being
// served wait for data from their clients: the data may be behind a waiting request on the same connection,
// and nothing would make progress. During that time more requests are accepted, and those beyond MaxServing
// are dropped.
type inbox struct {
	agent  *Agent
	portal uint32
	serve  func(*inbound) // called by an event handler; takes ownership of the request

	mu       sync.Mutex // guards the fields below
	wanted   int        // buffers that should be posted
	posting  bool       // a goroutine is executing post
	closed   bool
	posted   ring.Ring[inbound] // buffers that wait for requests
	busy     ring.Ring[inbound] // requests being served
	waiting  int                // number of requests being served that wait for data
	free     ring.Ring[inbound]
	unposted chan struct{} // closed when, after close, no buffer is posted any more
	idle     chan struct{} // closed when, in addition, no request is being served any more
}

func newInbox(a *Agent, portal uint32, serve func(*inbound)) *inbox {
	return &inbox{agent: a, portal: portal, serve: serve, unposted: make(chan struct{}), idle: make(chan struct{})}
}

// add adds n, which may be negative, to the number of buffers that should be posted, and posts or unlinks
// buffers.
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
		_ = b.agent.node.Unlink(h) // fails if a request has arrived
	}
	return b.post()
}

// post posts the missing buffers. Only one goroutine does so at a time; in others post returns immediately.
// This avoids a recursion: a new buffer may immediately receive a waiting request, whose handler also calls
// post.
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
		if b.closed { // close has not unlinked this buffer, because it did not know the handle yet
			b.mu.Unlock()
			_ = b.agent.node.Unlink(h) // fails if a request has arrived
			b.mu.Lock()
		}
	}
	return nil
}

// short reports whether another buffer should be posted. The caller holds b.mu.
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

// await adds n to the number of requests that wait for data, and posts a buffer if that is needed now.
func (b *inbox) await(n int) {
	b.mu.Lock()
	b.waiting += n
	short := b.posted.Len() == 0 && b.short()
	b.mu.Unlock()
	if short {
		_ = b.post() // fails only if the node is closed
	}
}

// keep adds an inbound that is in no ring to the free list. The caller holds b.mu.
func (b *inbox) keep(in *inbound) {
	in.serial++
	in.known = false
	b.free.Add(in, &in.links)
	b.notifyDone()
}

// notifyDone closes unposted and idle when their conditions hold. The caller holds b.mu.
func (b *inbox) notifyDone() {
	if b.closed && b.posted.Len() == 0 {
		closeOnce(b.unposted)
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

// requestEvents is an inbound in its role as the event handler of its posted buffer.
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
	b.notifyDone() // this may have been the last posted buffer
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

// release makes the buffer of a request free after the request was served.
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

// abort ends the RPCs of all requests being served, without replies.
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
		_ = b.agent.node.Unlink(h) // fails if a request has arrived
	}
}

// wait waits until channel c is closed, or returns the cause if ctx is done first.
func (b *inbox) wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// buffers returns the number of request buffers that a server test adds (selftest 4.8).
func (c *Config) buffers(s message.Service, loop uint32) int {
	items := c.BRWWorkItems
	if s == message.ServicePing {
		items = c.PingWorkItems
	}
	return max(serverBuffers, int(min(int64(items), int64(loop)))+buffersMargin)
}
