package selftest

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// inbound is a request buffer. After it has received a request, it is also the server side of this RPC: a
// bulk transfer if the service needs one, then a reply. Each of these steps has an MD, and an event reports
// the end of the step. Event handlers start the next step, so no goroutine waits.
type inbound struct {
	inbox  *inbox
	links  ring.Links[inbound] // guarded by inbox.mu
	handle lnet.Handle
	known  bool
	serial uint64 // incremented for each request, to recognize late calls
	gone   bool   // the buffer was posted when the node was closed, so no event follows

	request, reply [message.Size]byte

	from    lnet.ProcessID // the client; its NID is the one in the request's header
	self    lnet.NID       // the NID of this node that the request was sent to
	service message.Service
	header  message.Header
	brw     message.BRWRequest

	list   *destinationList // for a client test: the destinations, once fetched
	bulk   []byte           // memory of the bulk
	shared bool             // bulk is a part of Agent.source and must not be modified
	awaits bool             // waits for data and is counted in inbox.waiting; owned by the goroutine that serves the request
	waiter memoryWaiter

	mu       sync.Mutex // guards the fields below
	step     step
	md       lnet.Handle // MD of the step, valid if linked is set
	linked   bool
	aborted  bool
	failure  error
	received int // bytes of the bulk that have arrived
}

// step is the operation whose end an inbound waits for.
type step uint8

const (
	stepNone  step = iota
	stepFetch      // a GET of the client's bulk
	stepSend       // a PUT into the client's bulk
	stepReply
)

func newInbound(b *inbox) *inbound {
	in := &inbound{inbox: b}
	in.waiter.granted = in.granted
	return in
}

// reset prepares the inbound for a new request. The caller holds inbox.mu.
func (in *inbound) reset() {
	in.serial++
	in.known = false
	in.mu.Lock()
	in.step, in.linked, in.aborted, in.failure = stepNone, false, false, nil
	in.mu.Unlock()
}

// arrived checks the request in the buffer. It drops a malformed request, and passes a valid one to
// inbox.serve (selftest 2.5).
func (in *inbound) arrived(e *portals.Event) {
	a := in.inbox.agent
	a.counters.Received.Add(1)
	a.counters.Event(e.Err)
	in.from, in.self = e.Source, e.Target.NID
	if e.Err != nil {
		in.drop()
		return
	}
	if err := in.identify(e); err != nil {
		a.malformed(e.Source, err)
		in.drop()
		return
	}
	if in.header.Version != message.Version {
		in.refuse(message.EPROTO)
		return
	}
	in.inbox.serve(in)
}

// identify decodes the header of the request and sets the service. It returns an error if the request is
// malformed.
func (in *inbound) identify(e *portals.Event) error {
	if e.Requested != message.Size {
		return fmt.Errorf("message of %d bytes: %w", e.Requested, message.ErrSize)
	}
	in.service = message.Service(e.MatchBits)
	t, ok := in.service.Request()
	if !ok || uint64(in.service) != e.MatchBits || in.service.Portal() != in.inbox.portal {
		return fmt.Errorf("portal %d: unknown service %#x", in.inbox.portal, e.MatchBits)
	}
	h, got, err := message.Peek(in.request[:])
	if err == nil && got != t {
		err = fmt.Errorf("%s sent to the service %s: %w", got, in.service, message.ErrType)
	}
	in.header = h
	return err
}

// awaitData records that the request now waits for data from its client; see inbox.
func (in *inbound) awaitData() {
	in.awaits = true
	in.inbox.await(+1)
}

// dataArrived reverts awaitData. It has no effect if the request does not wait for data.
func (in *inbound) dataArrived() {
	if in.awaits {
		in.awaits = false
		in.inbox.await(-1)
	}
}

// drop ends the RPC without a reply, and counts this.
func (in *inbound) drop() {
	in.inbox.agent.counters.Dropped.Add(1)
	in.end()
}

// end releases the memory of the request and makes the buffer free.
func (in *inbound) end() {
	in.dataArrived()
	in.list = nil
	if in.bulk != nil {
		if !in.shared {
			in.inbox.agent.serverMemory.put(&in.waiter, in.bulk)
		}
		in.bulk = nil
	}
	in.inbox.release(in)
}

// refuse sends a reply with an error status and no other content.
func (in *inbound) refuse(s message.Status) {
	a := in.inbox.agent
	message.AppendRefusal(in.reply[:0], a.header(), in.service, s, a.sessionID())
	in.answer()
}

// answer sends the reply in in.reply.
func (in *inbound) answer() {
	in.begin(stepReply, portals.MD{Bytes: in.reply[:], Threshold: 1}, message.ReplyID(in.request[:]))
}

// send PUTs the bulk into the client's memory.
func (in *inbound) send() {
	in.begin(stepSend, portals.MD{Bytes: in.bulk, Threshold: 1}, in.brw.BulkID)
}

// fetch GETs the bulk from the client's memory. If the client does not answer, the GET fails after LNet's
// transaction timeout.
func (in *inbound) fetch() {
	in.awaitData()
	in.begin(stepFetch, portals.MD{
		Bytes: in.bulk, Threshold: 2, Options: portals.Truncate | portals.TrackResponse,
	}, in.brw.BulkID)
}

// begin starts step s with MD d and match bits bits. stepEvents.HandleEvent is called when the step ends.
func (in *inbound) begin(s step, d portals.MD, bits uint64) {
	a := in.inbox.agent
	d.Unlink = true
	d.Handler = (*stepEvents)(in)
	h, err := a.node.Bind(d)
	if err != nil {
		in.drop()
		return
	}
	in.mu.Lock()
	in.step, in.md, in.linked, in.received = s, h, true, 0
	aborted := in.aborted
	in.mu.Unlock()
	switch {
	case aborted:
		err = errAborted
	case s == stepFetch:
		err = a.node.Get(h, in.from, node.GetOptions{Source: in.self, Portal: message.ReplyPortal, MatchBits: bits})
	default:
		err = a.node.Put(h, in.from, node.PutOptions{Source: in.self, Portal: message.ReplyPortal, MatchBits: bits})
	}
	if err != nil {
		in.mu.Lock()
		in.failure = err
		in.mu.Unlock()
		in.unlink(h)
	}
}

var errAborted = fmt.Errorf("selftest: RPC aborted: %w", node.ErrCanceled)

// unlink ends a step early by unlinking its MD h. An event reports the end. If the node is closed, there is
// no event, and unlink itself drops the request.
func (in *inbound) unlink(h lnet.Handle) {
	a := in.inbox.agent
	if a.node.Unlink(h) == nil || !a.nodeClosed() {
		return
	}
	in.mu.Lock()
	gone := in.linked && in.md == h
	if gone {
		in.linked = false
	}
	in.mu.Unlock()
	if gone {
		if in.bulk != nil && !in.shared {
			a.serverMemory.markLost(&in.waiter, in.bulk)
			in.bulk = nil
		}
		in.drop()
	}
}

// abort ends the RPC without a reply, if the inbound still serves the request with this serial number.
func (in *inbound) abort(serial uint64) {
	in.inbox.mu.Lock()
	if in.serial != serial {
		in.inbox.mu.Unlock()
		return
	}
	in.mu.Lock()
	in.aborted = true
	h, linked := in.md, in.linked
	in.mu.Unlock()
	in.inbox.mu.Unlock()
	if linked {
		in.unlink(h)
		return
	}
	if in.inbox.agent.serverMemory.dequeue(&in.waiter) {
		in.drop()
	}
}

// stepEvents is an inbound in its role as the event handler of its current step.
type stepEvents inbound

// HandleEvent implements portals.Handler.
func (s *stepEvents) HandleEvent(e *portals.Event) {
	in := (*inbound)(s)
	a := in.inbox.agent
	in.mu.Lock()
	if !in.linked {
		in.mu.Unlock()
		return
	}
	if e.Err != nil && in.failure == nil {
		in.failure = e.Err
		if !in.aborted { // otherwise the abort has caused the error
			a.counters.Event(e.Err)
		}
	}
	if e.Type == portals.EventReply {
		in.received = e.Length
	}
	if !e.Unlinked {
		in.mu.Unlock()
		return
	}
	in.linked = false
	if e.Type == portals.EventUnlink && in.failure == nil {
		in.failure = errAborted
	}
	err, now := in.failure, in.step
	if in.aborted && now != stepReply && err == nil {
		err = errAborted
	}
	in.mu.Unlock()
	switch {
	case err != nil:
		in.drop()
	case now == stepReply:
		in.end()
	case now == stepSend:
		in.sent()
	default:
		in.fetched()
	}
}
