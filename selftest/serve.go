package selftest

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// asyncSize is the size in bytes from which on bulks are filled and checked in separate goroutines, so that the
// driver's goroutine can read other messages during this work.
const asyncSize = 64 << 10

// serveTest serves a request to a test service. An event handler calls it.
func (a *Agent) serveTest(in *inbound) {
	if a.server(in.service).Load() == 0 { // no server test is loaded
		in.drop()
		return
	}
	if in.header.Features&^message.Supported != 0 {
		in.refuse(message.EPROTO)
		return
	}
	if in.service == message.ServicePing {
		in.ping()
		return
	}
	in.serveBRW()
}

// server returns the counter of the server tests of a service that are loaded in the session.
func (a *Agent) server(s message.Service) *atomic.Int32 {
	return &a.servers[s-message.ServiceBRW]
}

// ping answers a ping (selftest 6).
func (in *inbound) ping() {
	var q message.PingRequest
	if q.Decode(in.request[:]) != nil || q.Magic != message.PingMagic {
		in.drop()
		return
	}
	r := message.PingReply{Header: in.inbox.agent.header(), Magic: q.Magic, Seq: q.Seq}
	r.Append(in.reply[:0])
	in.answer()
}

// serveBRW starts to serve a BRW request (selftest 5).
func (in *inbound) serveBRW() {
	a := in.inbox.agent
	if in.brw.Decode(in.request[:]) != nil || !validBRW(&in.brw) {
		in.refuse(message.EINVAL)
		return
	}
	if n := int(in.brw.Length); in.brw.Op == message.BRWRead && !a.inject() {
		in.bulk, in.shared = a.source()[:n:n], true
		in.send()
		return
	}
	in.shared = false
	if b := a.serverMemory.take(&in.waiter, in.from.NID, int(in.brw.Length)); b != nil {
		in.granted(b)
		return
	}
	// An abort before the request was queued has not found it in the queue.
	in.mu.Lock()
	aborted := in.aborted
	in.mu.Unlock()
	if aborted && a.serverMemory.dequeue(&in.waiter) {
		in.drop()
	}
}

// validBRW reports whether the parameters of a BRW request are valid.
func validBRW(q *message.BRWRequest) bool {
	n := q.Length
	switch {
	case q.Op != message.BRWRead && q.Op != message.BRWWrite, !q.Check.Valid():
		return false
	case n == 0 || n > message.MaxBulk:
		return false
	case q.Features&message.BulkLength == 0 && n%message.PageSize != 0:
		return false
	}
	return !q.Check.Looks() || n%8 == 0
}

// granted continues with a BRW request when memory for its bulk is available.
func (in *inbound) granted(b []byte) {
	in.bulk = b
	if in.needsGoroutine() {
		in.inbox.agent.spawn(in.prepare)
		return
	}
	in.prepare()
}

// needsGoroutine reports whether filling or checking the bulk takes so long that it needs a separate goroutine.
func (in *inbound) needsGoroutine() bool {
	return len(in.bulk) >= asyncSize && in.brw.Check == message.CheckFull
}

// prepare fills the bulk and sends it, for a read. For a write, it fills the memory with poison and fetches
// the client's bulk.
func (in *inbound) prepare() {
	if in.brw.Op == message.BRWRead {
		in.inbox.agent.corrupt(in.bulk, in.brw.Check)
		in.send()
		return
	}
	pattern.Poison(in.bulk, in.brw.Check)
	in.fetch()
}

// sent continues with a read when the bulk has been sent: it answers the request.
func (in *inbound) sent() {
	a := in.inbox.agent
	a.counters.BulkPut.Add(uint64(len(in.bulk)))
	r := message.BRWReply{Header: a.header()}
	r.Append(in.reply[:0])
	in.answer()
}

// fetched continues with a write when the client's bulk has arrived: it checks the bulk and answers the
// request.
func (in *inbound) fetched() {
	in.dataArrived()
	if in.received != len(in.bulk) {
		in.drop()
		return
	}
	in.inbox.agent.counters.BulkGet.Add(uint64(in.received))
	if in.needsGoroutine() {
		in.inbox.agent.spawn(in.examine)
		return
	}
	in.examine()
}

// examine checks the client's bulk, releases its memory, and answers the request.
func (in *inbound) examine() {
	r := message.BRWReply{Header: in.inbox.agent.header()}
	if pattern.Check(in.bulk, in.brw.Check, in.header.Order) != nil {
		r.Status = message.EBADMSG
	}
	r.Append(in.reply[:0])
	in.inbox.agent.serverMemory.put(&in.waiter, in.bulk)
	in.bulk = nil
	in.answer()
}
