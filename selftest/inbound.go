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

// inbound is a request buffer and, when a request is in it, the server side of
// that RPC: perhaps a bulk, then a reply, each an MD of its own that is waited
// for. Steps follow each other in handlers; nothing waits in a goroutine.
type inbound struct {
	inbox  *inbox
	links  ring.Links[inbound] // guarded by inbox.mu
	handle lnet.Handle
	known  bool
	serial uint64 // counts lives
	gone   bool   // posted when the node closed

	request, reply [message.Size]byte

	from    lnet.ProcessID // who asked, by the NID in the header
	self    lnet.NID       // whom it asked
	service message.Service
	header  message.Header
	brw     message.BRWRequest

	list   *destinationList // of a client's test, once it has come
	bulk   []byte           // memory of the bulk
	shared bool             // it is the agent's source
	awaits bool             // the inbox counts it; who serves the request has it
	waiter memoryWaiter

	mu       sync.Mutex // guards the rest
	step     step
	md       lnet.Handle // of the step, if linked
	linked   bool
	aborted  bool
	failure  error
	received int // bytes of a bulk
}

// step is what an inbound waits for.
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

// reset begins a new life, with inbox.mu held.
func (in *inbound) reset() {
	in.serial++
	in.known = false
	in.mu.Lock()
	in.step, in.linked, in.aborted, in.failure = stepNone, false, false, nil
	in.mu.Unlock()
}

// arrived looks at what is in the buffer, drops what is malformed, and has the
// rest served (selftest 2.5).
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

// identify reads the header and tells the service.
func (in *inbound) identify(e *portals.Event) error {
	if e.Requested != message.Size {
		return fmt.Errorf("message of %d bytes: %w", e.Requested, message.ErrSize)
	}
	in.service = message.Service(e.MatchBits)
	t, ok := in.service.Request()
	if !ok || uint64(in.service) != e.MatchBits || in.service.Portal() != in.inbox.portal {
		return fmt.Errorf("portal %d: no service %#x", in.inbox.portal, e.MatchBits)
	}
	h, got, err := message.Peek(in.request[:])
	if err == nil && got != t {
		err = fmt.Errorf("%s to service %s: %w", got, in.service, message.ErrType)
	}
	in.header = h
	return err
}

// awaitData notes that data of the client are waited for.
func (in *inbound) awaitData() {
	in.awaits = true
	in.inbox.await(+1)
}

// dataArrived notes that they are not, or not any more.
func (in *inbound) dataArrived() {
	if in.awaits {
		in.awaits = false
		in.inbox.await(-1)
	}
}

// drop ends the RPC without a reply.
func (in *inbound) drop() {
	in.inbox.agent.counters.Dropped.Add(1)
	in.end()
}

// end gives all back.
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

// refuse answers with nothing but a status.
func (in *inbound) refuse(s message.Status) {
	a := in.inbox.agent
	message.AppendRefusal(in.reply[:0], a.header(), in.service, s, a.sessionID())
	in.answer()
}

// answer sends what is in in.reply.
func (in *inbound) answer() {
	in.begin(stepReply, portals.MD{Bytes: in.reply[:], Threshold: 1}, message.ReplyID(in.request[:]))
}

// send PUTs the bulk into the client's memory.
func (in *inbound) send() {
	in.begin(stepSend, portals.MD{Bytes: in.bulk, Threshold: 1}, in.brw.BulkID)
}

// fetch GETs the bulk from the client's memory. A client that never answers is
// given up after LNet's transaction timeout.
func (in *inbound) fetch() {
	in.awaitData()
	in.begin(stepFetch, portals.MD{
		Bytes: in.bulk, Threshold: 2, Options: portals.Truncate | portals.TrackResponse,
	}, in.brw.BulkID)
}

// begin starts a step, whose end comes to HandleEvent.
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

// unlink ends a step early. Its event tells when, unless the node is closed.
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
			a.serverMemory.lose(&in.waiter, in.bulk)
			in.bulk = nil
		}
		in.drop()
	}
}

// abort ends the serving, if it is still that of the same life.
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
	if in.inbox.agent.serverMemory.forget(&in.waiter) {
		in.drop()
	}
}

// stepEvents is an inbound as the handler of its present step.
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
		if !in.aborted { // else it is our doing
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
