package rpc

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// Waiter hears of the end of a call.
type Waiter interface {
	// Ended is called once for every Start, under no lock, in any goroutine: a
	// driver's, a timer's, that of Abort, or that of Start before it returns. It
	// must not block. The call may be started again, but where Ended runs within
	// Start only after that has returned.
	Ended(k *Call)
}

// Call is one RPC at a time. The fields and SetRequest belong to the caller
// while it is not under way.
type Call struct {
	To      lnet.ProcessID // one process: no wildcards
	Service message.Service
	Bulk    Bulk
	// Timeout bounds the RPC; 0: nothing does.
	Timeout time.Duration
	Waiter  Waiter

	request, reply [message.Size]byte

	client *Client          // since the first Start
	links  ring.Links[Call] // guarded by client.mu

	mu       sync.Mutex // guards the rest
	parts    [parts]part
	pending  int  // parts whose MD is linked
	active   bool // from Start until the end
	starting bool
	err      error // the first failure
	timer    *time.Timer
	deadline time.Time
	started  time.Time
	took     time.Duration

	// abandoned: the node was closed while MDs were linked. Their memory is not
	// ours any more.
	abandoned bool
}

// The parts of a call, in the order in which their failures count.
const (
	partRequest = iota
	partReply
	partBulk
	parts
)

// part is one of a call's MDs.
type part struct {
	handle lnet.Handle
	linked bool // its last event has not come
	known  bool // handle is set
	done   bool
	length int
}

// Each part has a handler of its own, which is the call by another name.
type (
	requestEvents Call
	replyEvents   Call
	bulkEvents    Call
)

func (k *requestEvents) HandleEvent(e *portals.Event) { (*Call)(k).event(partRequest, e) }
func (k *replyEvents) HandleEvent(e *portals.Event)   { (*Call)(k).event(partReply, e) }
func (k *bulkEvents) HandleEvent(e *portals.Event)    { (*Call)(k).event(partBulk, e) }

// SetRequest encodes the request; Start adds the IDs.
func (k *Call) SetRequest(q message.Request) { q.Append(k.request[:0]) }

// Request is the encoded request, to be written by those who do without
// SetRequest.
func (k *Call) Request() []byte { return k.request[:] }

// Err is how the call has ended; nil: a reply to the request has come, of
// whatever status.
func (k *Call) Err() error { return k.err }

// Reply is the encoded reply, if Err is nil.
func (k *Call) Reply() []byte { return k.reply[:] }

// Abandoned tells that the node was closed under the call. Then it must not be
// started again, and its bulk must stay as it is until the node's Close has
// returned.
func (k *Call) Abandoned() bool { return k.abandoned }

// Took is how long the call took, from Start to its last event.
func (k *Call) Took() time.Duration { return k.took }

// Start sends the request. It never blocks; k.Waiter hears of the end. k must
// not be under way, and be of one client all its life.
func (c *Client) Start(k *Call) {
	if k.client == nil {
		k.client = c
	}
	k.started = time.Now()
	k.mu.Lock()
	k.parts = [parts]part{}
	k.err = nil
	k.active, k.starting = true, true
	k.mu.Unlock()
	if !c.enter(k) {
		k.mu.Lock()
		k.active, k.starting, k.err = false, false, ErrClosed
		k.mu.Unlock()
		k.Waiter.Ended(k)
		return
	}
	err := k.check()
	if err == nil {
		err = k.send()
	}
	k.mu.Lock()
	k.starting = false
	if err != nil && k.err == nil {
		k.err = err
	}
	if k.err == nil && k.pending > 0 && k.Timeout > 0 {
		k.deadline = k.started.Add(k.Timeout)
		if k.timer == nil {
			k.timer = time.AfterFunc(k.Timeout, k.timeUp)
		} else {
			k.timer.Reset(k.Timeout)
		}
	}
	k.advance()
}

// check refuses what entries that wait for this one process cannot express.
func (k *Call) check() error {
	n := k.To.NID
	switch {
	case n.IsAny() || n.IsZero() || k.To.PID == 0 || k.To.PID == lnet.PIDAny:
		return fmt.Errorf("RPC to %s: not one process: %w", k.To, ErrInvalid)
	case len(k.Bulk.Bytes) > message.MaxBulk:
		return fmt.Errorf("RPC to %s: bulk of %d bytes: %w", k.To, len(k.Bulk.Bytes), ErrInvalid)
	}
	return nil
}

// send posts the buffers and sends the request.
func (k *Call) send() error {
	c := k.client
	replyID := c.nextID()
	entry := portals.Entry{
		Portal: message.ReplyPortal, Match: k.To, MatchBits: replyID, Position: portals.After,
	}
	if err := k.link(partReply, &entry, portals.MD{
		Bytes: k.reply[:], Threshold: 1, Unlink: true,
		Options: portals.OpPut | portals.Truncate, Handler: (*replyEvents)(k),
	}); err != nil {
		return err
	}
	var bulkID uint64
	if len(k.Bulk.Bytes) > 0 {
		bulkID = c.nextID()
		entry.MatchBits = bulkID
		if err := k.link(partBulk, &entry, portals.MD{
			Bytes: k.Bulk.Bytes, Threshold: 1, Unlink: true,
			Options: k.Bulk.options(), Handler: (*bulkEvents)(k),
		}); err != nil {
			return err
		}
	}
	message.SetIDs(k.request[:], replyID, bulkID)
	if err := k.link(partRequest, nil, portals.MD{
		Bytes: k.request[:], Threshold: 1, Unlink: true, Handler: (*requestEvents)(k),
	}); err != nil {
		return err
	}
	err := c.node.Put(k.parts[partRequest].handle, k.To, node.PutOptions{
		Portal: k.Service.Portal(), MatchBits: uint64(k.Service),
	})
	if err == nil {
		c.counters.Sent.Add(1)
	}
	return err
}

func (b *Bulk) options() portals.MDOptions {
	o := portals.OpGet | portals.Truncate
	if b.Sink {
		o = portals.OpPut
	}
	if b.Discard {
		o |= portals.Discard
	}
	return o
}

// link makes the MD of a part, bound if there is no entry.
func (k *Call) link(p int, e *portals.Entry, d portals.MD) error {
	k.mu.Lock()
	k.parts[p].linked = true
	k.pending++
	k.mu.Unlock()
	var h lnet.Handle
	var err error
	if e != nil {
		h, err = k.client.node.Attach(*e, d)
	} else {
		h, err = k.client.node.Bind(d)
	}
	k.mu.Lock()
	if err != nil {
		k.parts[p].linked = false
		k.pending--
	} else {
		k.parts[p].handle, k.parts[p].known = h, true
	}
	k.mu.Unlock()
	return err
}

// event notes an event of a part.
func (k *Call) event(p int, e *portals.Event) {
	k.mu.Lock()
	if k.abandoned {
		k.mu.Unlock()
		return
	}
	w := &k.parts[p]
	if e.Type != portals.EventUnlink {
		w.done, w.length = true, e.Requested
		if p == partBulk && !k.Bulk.Sink {
			w.length = e.Length
		}
		if e.Err != nil && k.err == nil { // else it is our doing
			k.err = e.Err
			k.client.counters.Event(e.Err)
		}
	}
	if e.Unlinked && w.linked {
		w.linked = false
		k.pending--
	}
	k.advance()
}

// advance sees what follows from what has happened: nothing, the end of the
// call, or that MDs are to be unlinked. It is called with k.mu held, and
// returns without it.
func (k *Call) advance() {
	if k.starting || !k.active {
		k.mu.Unlock()
		return
	}
	refused := false
	if k.err == nil && k.parts[partReply].done {
		refused = k.judge()
	}
	if k.pending == 0 {
		k.end()
		return
	}
	var unlink [parts]lnet.Handle
	n := 0
	for p := range k.parts {
		w := &k.parts[p]
		if w.linked && w.known && (k.err != nil || refused && p == partBulk) {
			w.known = false // once is enough
			unlink[n] = w.handle
			n++
		}
	}
	k.mu.Unlock()
	missing := false
	for _, h := range unlink[:n] {
		// Not found: it was used up just now, and its last event is on its way.
		missing = k.client.node.Unlink(h) != nil || missing
	}
	if missing && k.client.nodeClosed() {
		k.abandon()
	}
}

// judge looks at the reply that has come, and tells whether it says that there
// will be no bulk.
func (k *Call) judge() (refused bool) {
	if n := k.parts[partReply].length; n != message.Size {
		k.err = fmt.Errorf("reply of %d bytes from %s: %w", n, k.To, ErrBadReply)
		return false
	}
	t, _ := k.Service.Request()
	h, status, err := message.ReplyStatus(k.reply[:], t.Reply())
	switch {
	case err != nil:
		k.err = fmt.Errorf("reply from %s: %w: %w", k.To, ErrBadReply, err)
	case h.Version != message.Version:
		k.err = fmt.Errorf("reply from %s: version %d: %w", k.To, h.Version, ErrBadVersion)
	}
	return k.err == nil && status != message.OK
}

// end ends the call; k.mu is held, and released.
func (k *Call) end() {
	if w := &k.parts[partBulk]; k.err == nil && len(k.Bulk.Bytes) > 0 && !w.done {
		if _, status, _ := message.ReplyStatus(k.reply[:], k.replyType()); status == message.OK {
			k.err = fmt.Errorf("bulk of %s: none: %w", k.To, ErrShortBulk)
		}
	} else if k.err == nil && w.done && w.length != len(k.Bulk.Bytes) {
		k.err = fmt.Errorf("bulk of %s: %d bytes instead of %d: %w", k.To, w.length, len(k.Bulk.Bytes), ErrShortBulk)
	}
	k.active = false
	k.took = time.Since(k.started)
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.client.leave(k)
	k.Waiter.Ended(k)
}

func (k *Call) replyType() message.Type {
	t, _ := k.Service.Request()
	return t.Reply()
}

// Abort ends the call with ErrAborted as soon as nothing of it is under way. It
// does nothing if the call has ended.
func (k *Call) Abort() { k.abort(ErrAborted) }

func (k *Call) abort(err error) {
	k.mu.Lock()
	if k.active && k.err == nil {
		k.err = fmt.Errorf("RPC to %s: %w", k.To, err)
	}
	k.advance()
}

// expire ends the call because its time is up.
func (k *Call) expire() {
	k.mu.Lock()
	k.expireLocked()
}

// expireLocked is expire with k.mu held, which it releases.
func (k *Call) expireLocked() {
	if k.active && k.err == nil {
		k.err = fmt.Errorf("%s RPC to %s: %w", k.Service, k.To, ErrTimedOut)
		k.client.counters.Expired.Add(1)
	}
	k.advance()
}

// timeUp is the timer's. It may be a former call's, whose timer was stopped too
// late.
func (k *Call) timeUp() {
	k.mu.Lock()
	if k.starting || time.Now().Before(k.deadline) {
		k.mu.Unlock()
		return
	}
	k.expireLocked()
}

// abandon ends a call whose node has closed: no event will come.
func (k *Call) abandon() {
	k.mu.Lock()
	if !k.active || k.abandoned || k.pending == 0 {
		k.mu.Unlock()
		return
	}
	k.abandoned = true
	k.pending = 0
	if k.err == nil || errors.Is(k.err, ErrAborted) {
		k.err = ErrClosed
	}
	k.end()
}
