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

// Waiter is notified when a Call ends.
type Waiter interface {
	// Ended is called once for every Start. No lock is held. It may run in any goroutine: that of a driver or
	// a timer, that of Abort, or that of Start before Start returns. It must not block. It may start the call
	// again, but if it runs within Start, it must wait until Start has returned.
	Ended(k *Call)
}

// Call makes one RPC at a time. The caller may use the fields and SetRequest only while no RPC is in
// progress.
type Call struct {
	To      lnet.ProcessID // the server: a single process, no wildcards
	Service message.Service
	Bulk    Bulk
	// Timeout limits the duration of the RPC. 0 means no limit.
	Timeout time.Duration
	Waiter  Waiter

	request, reply [message.Size]byte

	client *Client          // set by the first Start
	links  ring.Links[Call] // guarded by client.mu

	mu       sync.Mutex // guards the fields below
	parts    [parts]part
	pending  int  // number of parts with a linked MD
	active   bool // from Start until the RPC has ended
	starting bool
	err      error // the first failure, or nil
	timer    *time.Timer
	deadline time.Time
	started  time.Time
	took     time.Duration

	// abandoned is set if the node was closed while MDs were linked. No events follow, but the node may still
	// access the memory of the MDs.
	abandoned bool
}

// The parts of a call, each with an MD, in the order in which end reports their failures.
const (
	partRequest = iota
	partReply
	partBulk
	parts
)

// part is the state of one of a call's MDs.
type part struct {
	handle lnet.Handle
	linked bool // the last event of the MD has not arrived yet
	known  bool // handle is set, and unlink was not called
	done   bool // an event other than UNLINK has arrived
	length int
}

// The event handlers of the three parts. Each type is the Call itself, so that a handler needs no allocation.
type (
	requestEvents Call
	replyEvents   Call
	bulkEvents    Call
)

func (k *requestEvents) HandleEvent(e *portals.Event) { (*Call)(k).event(partRequest, e) }
func (k *replyEvents) HandleEvent(e *portals.Event)   { (*Call)(k).event(partReply, e) }
func (k *bulkEvents) HandleEvent(e *portals.Event)    { (*Call)(k).event(partBulk, e) }

// SetRequest encodes the request. Start sets the match bits in it.
func (k *Call) SetRequest(q message.Request) { q.Append(k.request[:0]) }

// Request returns the buffer of the encoded request, for callers that do not use SetRequest.
func (k *Call) Request() []byte { return k.request[:] }

// Err returns the error of an RPC that has ended. It is nil if a reply has arrived, whatever its status is.
func (k *Call) Err() error { return k.err }

// Reply returns the encoded reply. It is valid if Err is nil.
func (k *Call) Reply() []byte { return k.reply[:] }

// Abandoned reports whether the node was closed during the call. If so, the call must not be started
// again, and its bulk must not be touched until the node's Close has returned.
func (k *Call) Abandoned() bool { return k.abandoned }

// Took returns the duration of the RPC, from Start to its last event.
func (k *Call) Took() time.Duration { return k.took }

// Start sends the request. It does not block. k.Waiter is notified of the end. k must not have an RPC in
// progress, and must always be used with the same client.
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

// check returns ErrInvalid if the call's target is not a single process or its bulk is too large.
func (k *Call) check() error {
	n := k.To.NID
	switch {
	case n.IsAny() || n.IsZero() || k.To.PID == 0 || k.To.PID == lnet.PIDAny:
		return fmt.Errorf("RPC to %s: not the ID of one process: %w", k.To, ErrInvalid)
	case len(k.Bulk.Bytes) > message.MaxBulk:
		return fmt.Errorf("RPC to %s: bulk of %d bytes: more than the maximum: %w", k.To, len(k.Bulk.Bytes), ErrInvalid)
	}
	return nil
}

// send posts the buffers for the reply and the bulk, and sends the request.
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

// link creates MD d of part p. If e is not nil, the MD is attached to a portal with this entry.
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

// event handles event e of part p.
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
		if e.Err != nil && k.err == nil { // otherwise this call itself has caused the error
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

// advance decides what to do after an event, an abort or a timeout: nothing, end the call, or unlink MDs. The
// caller holds k.mu, and advance unlocks it.
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
			w.known = false // unlink only once
			unlink[n] = w.handle
			n++
		}
	}
	k.mu.Unlock()
	missing := false
	for _, h := range unlink[:n] {
		// If the handle is not found, the MD was just used, and its last event is being delivered.
		missing = k.client.node.Unlink(h) != nil || missing
	}
	if missing && k.client.nodeClosed() {
		k.abandon()
	}
}

// judge checks the reply and sets k.err if it is invalid. It returns true if the status of the reply means
// that no bulk will follow.
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

// end ends the RPC and notifies the Waiter. The caller holds k.mu, and end unlocks it.
func (k *Call) end() {
	if w := &k.parts[partBulk]; k.err == nil && len(k.Bulk.Bytes) > 0 && !w.done {
		if _, status, _ := message.ReplyStatus(k.reply[:], k.replyType()); status == message.OK {
			k.err = fmt.Errorf("bulk from %s: no data arrived: %w", k.To, ErrShortBulk)
		}
	} else if k.err == nil && w.done && w.length != len(k.Bulk.Bytes) {
		k.err = fmt.Errorf("bulk from %s: %d bytes instead of %d: %w", k.To, w.length, len(k.Bulk.Bytes), ErrShortBulk)
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

// Abort ends the RPC with ErrAborted. The end is reported when the node no longer uses the MDs. Abort does
// nothing if the RPC has ended.
func (k *Call) Abort() { k.abort(ErrAborted) }

func (k *Call) abort(err error) {
	k.mu.Lock()
	if k.active && k.err == nil {
		k.err = fmt.Errorf("RPC to %s: %w", k.To, err)
	}
	k.advance()
}

// expire ends the RPC with ErrTimedOut, as Abort does.
func (k *Call) expire() {
	k.mu.Lock()
	k.expireLocked()
}

// expireLocked is like expire, but for callers that hold k.mu. It unlocks k.mu.
func (k *Call) expireLocked() {
	if k.active && k.err == nil {
		k.err = fmt.Errorf("%s RPC to %s: %w", k.Service, k.To, ErrTimedOut)
		k.client.counters.Expired.Add(1)
	}
	k.advance()
}

// timeUp is called by the timer. It checks the deadline, because the timer may belong to an earlier RPC of
// the call and have fired just before it was stopped.
func (k *Call) timeUp() {
	k.mu.Lock()
	if k.starting || time.Now().Before(k.deadline) {
		k.mu.Unlock()
		return
	}
	k.expireLocked()
}

// abandon ends an RPC because the node was closed, so that no events will follow.
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
