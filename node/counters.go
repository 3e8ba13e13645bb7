package node

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// MessageCounts counts messages by type.
type MessageCounts struct {
	Put, Get, Reply, Ack, Hello uint64
}

// Total is the sum over all types.
func (c MessageCounts) Total() uint64 { return c.Put + c.Get + c.Reply + c.Ack + c.Hello }

// Latency sums up measured times.
type Latency struct {
	Samples       uint64
	Min, Max, Avg time.Duration
}

// Traffic is what passed an NI or went to and came from a peer NI
// (lnet-core 10.2).
type Traffic struct {
	// Sent counts as kernels do: an ACK as put, a REPLY as get.
	Sent, Received, Dropped MessageCounts
	// PutEgress is the time from a PUT's call to its local completion, GetRTT
	// and PutAck that from a request to its response, if it is tracked.
	PutEgress, GetRTT, PutAck Latency
}

// HealthCounters counts failures of an NI or a peer NI by class.
type HealthCounters struct {
	// Of an NI.
	Interrupts, Dropped, Aborted, NoRoute, Timeouts, Errors uint64
	// Of a peer NI.
	RemoteDropped, RemoteTimeouts, RemoteErrors, NetworkTimeouts uint64
}

// Counters are the node's counters (lnet-core 10.1), in the order in which
// they are shown. Errors stays 0. Sent and Received leave out what was Routed.
type Counters struct {
	Committed, CommittedMax uint64 // msgs_alloc, msgs_max
	Trackers                uint64 // rst_alloc
	Errors                  uint64
	Sent                    uint64
	Resent                  uint64
	ResponseTimeouts        uint64
	LocalInterrupts         uint64
	LocalDropped            uint64
	LocalAborted            uint64
	LocalNoRoute            uint64
	LocalTimeouts           uint64
	LocalErrors             uint64
	RemoteDropped           uint64
	RemoteErrors            uint64
	RemoteTimeouts          uint64
	NetworkTimeouts         uint64
	FailedResends           uint64
	SuccessfulResends       uint64
	Received                uint64
	Routed                  uint64
	Dropped                 uint64
	SentBytes               uint64
	ReceivedBytes           uint64
	RoutedBytes             uint64
	DroppedBytes            uint64
}

const (
	messageTypes = 5  // lnet.MsgAck to lnet.MsgHello
	statuses     = 11 // lnd.StatusOK to lnd.StatusNetworkTimeout
)

type latencyKind uint8

const (
	latencyPutEgress latencyKind = iota
	latencyGetRTT
	latencyPutAck
	latencyKinds
)

// trafficStats is the live form of Traffic. The node's totals are sums of its
// NIs', so that a message costs no further atomic operation for them.
type trafficStats struct {
	sent, received, dropped                [messageTypes]atomic.Uint64
	sentBytes, receivedBytes, droppedBytes atomic.Uint64
	latency                                [latencyKinds]latencyStats
	status                                 [statuses]atomic.Uint64
}

type latencyStats struct {
	samples, sum, min, max atomic.Int64 // nanoseconds; min 0: no sample yet
}

func (l *latencyStats) add(ns int64) {
	ns = max(ns, 1)
	l.samples.Add(1)
	l.sum.Add(ns)
	for {
		old := l.min.Load()
		if old != 0 && old <= ns || l.min.CompareAndSwap(old, ns) {
			break
		}
	}
	raise(&l.max, ns)
}

func (l *latencyStats) snapshot() Latency {
	s := Latency{Samples: uint64(l.samples.Load()), Min: time.Duration(l.min.Load()), Max: time.Duration(l.max.Load())}
	if s.Samples > 0 {
		s.Avg = time.Duration(uint64(l.sum.Load()) / s.Samples)
	}
	return s
}

// raise lifts a to v, unless it is higher already.
func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); old < v; old = a.Load() {
		if a.CompareAndSwap(old, v) {
			return
		}
	}
}

// sentAs is the type that a sent message counts as (see Traffic.Sent).
var sentAs = [messageTypes]lnet.MsgType{
	lnet.MsgAck: lnet.MsgPut, lnet.MsgPut: lnet.MsgPut,
	lnet.MsgGet: lnet.MsgGet, lnet.MsgReply: lnet.MsgGet, lnet.MsgHello: lnet.MsgHello,
}

// sample adds a latency to the figures of m's NI and peer NI.
func (m *message) sample(k latencyKind, ns int64) {
	m.ni.stats.latency[k].add(ns)
	if m.peer != nil {
		m.peer.stats.latency[k].add(ns)
	}
}

// countSent counts a successful send of nbytes of payload.
func (m *message) countSent(t lnet.MsgType, nbytes int) {
	m.ni.stats.sent[sentAs[t]].Add(1)
	if nbytes > 0 {
		m.ni.stats.sentBytes.Add(uint64(nbytes))
	}
	if m.peer != nil {
		m.peer.stats.sent[sentAs[t]].Add(1)
	}
}

// countReceived counts a successful reception of nbytes of payload.
func (m *message) countReceived(t lnet.MsgType, nbytes int) {
	m.ni.stats.received[t].Add(1)
	if nbytes > 0 {
		m.ni.stats.receivedBytes.Add(uint64(nbytes))
	}
	if m.peer != nil {
		m.peer.stats.received[t].Add(1)
	}
}

// countDropped counts a message given up with nbytes of payload.
func (i *ni) countDropped(p *peerNI, t lnet.MsgType, nbytes int) {
	i.stats.dropped[t].Add(1)
	i.stats.droppedBytes.Add(uint64(nbytes))
	if p != nil {
		p.stats.dropped[t].Add(1)
	}
}

func counts(c *[messageTypes]atomic.Uint64) MessageCounts {
	return MessageCounts{
		Put: c[lnet.MsgPut].Load(), Get: c[lnet.MsgGet].Load(), Reply: c[lnet.MsgReply].Load(),
		Ack: c[lnet.MsgAck].Load(), Hello: c[lnet.MsgHello].Load(),
	}
}

func (s *trafficStats) traffic() Traffic {
	return Traffic{
		Sent: counts(&s.sent), Received: counts(&s.received), Dropped: counts(&s.dropped),
		PutEgress: s.latency[latencyPutEgress].snapshot(),
		GetRTT:    s.latency[latencyGetRTT].snapshot(),
		PutAck:    s.latency[latencyPutAck].snapshot(),
	}
}

func (s *trafficStats) health() HealthCounters {
	at := func(k lnd.Status) uint64 { return s.status[k].Load() }
	return HealthCounters{
		Interrupts: at(lnd.StatusLocalInterrupt), Dropped: at(lnd.StatusLocalDropped),
		Aborted: at(lnd.StatusLocalAborted), NoRoute: at(lnd.StatusLocalNoRoute),
		Timeouts: at(lnd.StatusLocalTimeout), Errors: at(lnd.StatusLocalError),
		RemoteDropped: at(lnd.StatusRemoteDropped), RemoteTimeouts: at(lnd.StatusRemoteTimeout),
		RemoteErrors: at(lnd.StatusRemoteError), NetworkTimeouts: at(lnd.StatusNetworkTimeout),
	}
}

// addTo adds the figures that make up the node's totals.
func (s *trafficStats) addTo(c *Counters) {
	c.Sent += counts(&s.sent).Total()
	c.Received += counts(&s.received).Total()
	c.Dropped += counts(&s.dropped).Total()
	c.SentBytes += s.sentBytes.Load()
	c.ReceivedBytes += s.receivedBytes.Load()
	c.DroppedBytes += s.droppedBytes.Load()
}

// reset zeroes counts and latencies; health counters stay (lnet-core 10.1).
func (s *trafficStats) reset() {
	for _, c := range []*[messageTypes]atomic.Uint64{&s.sent, &s.received, &s.dropped} {
		for k := range c {
			c[k].Store(0)
		}
	}
	s.sentBytes.Store(0)
	s.receivedBytes.Store(0)
	s.droppedBytes.Store(0)
	for k := range s.latency {
		l := &s.latency[k]
		l.samples.Store(0)
		l.sum.Store(0)
		l.min.Store(0)
		l.max.Store(0)
	}
}

// nodeStats are the counters that belong to no NI.
type nodeStats struct {
	committed, committedMax          atomic.Int64
	responseTimeouts                 atomic.Uint64
	resent                           atomic.Uint64
	failedResends, successfulResends atomic.Uint64
	status                           [statuses]atomic.Uint64
	drops                            dropTally
	// passed is what came for others, routed what of it has left again.
	passed, routed tally
}

// tally counts messages and their bytes.
type tally struct{ messages, bytes atomic.Uint64 }

func (t *tally) add(nbytes int) {
	t.messages.Add(1)
	if nbytes > 0 {
		t.bytes.Add(uint64(nbytes))
	}
}

func (t *tally) reset() {
	t.messages.Store(0)
	t.bytes.Store(0)
}

// Counters returns the node's counters.
func (n *Node) Counters() Counters {
	n.made()
	at := func(k lnd.Status) uint64 { return n.stats.status[k].Load() }
	c := Counters{
		Committed:         uint64(max(0, n.stats.committed.Load())),
		CommittedMax:      uint64(n.stats.committedMax.Load()),
		Trackers:          uint64(n.table.Trackers()),
		Resent:            n.stats.resent.Load(),
		ResponseTimeouts:  n.stats.responseTimeouts.Load(),
		FailedResends:     n.stats.failedResends.Load(),
		SuccessfulResends: n.stats.successfulResends.Load(),
		LocalInterrupts:   at(lnd.StatusLocalInterrupt),
		LocalDropped:      at(lnd.StatusLocalDropped),
		LocalAborted:      at(lnd.StatusLocalAborted),
		LocalNoRoute:      at(lnd.StatusLocalNoRoute),
		LocalTimeouts:     at(lnd.StatusLocalTimeout),
		LocalErrors:       at(lnd.StatusLocalError),
		RemoteDropped:     at(lnd.StatusRemoteDropped),
		RemoteErrors:      at(lnd.StatusRemoteError),
		RemoteTimeouts:    at(lnd.StatusRemoteTimeout),
		NetworkTimeouts:   at(lnd.StatusNetworkTimeout),
	}
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	c.add(&n.retired)
	n.lo.stats.addTo(&c)
	for _, i := range slices.Concat(n.topology.Load().nis, n.leaving) {
		i.stats.addTo(&c)
	}
	passed, routed := &n.stats.passed, &n.stats.routed
	c.Routed, c.RoutedBytes = routed.messages.Load(), routed.bytes.Load()
	c.Sent, c.SentBytes = less(c.Sent, c.Routed), less(c.SentBytes, c.RoutedBytes)
	c.Received, c.ReceivedBytes = less(c.Received, passed.messages.Load()), less(c.ReceivedBytes, passed.bytes.Load())
	return c
}

// less is a-b, or 0 while the figures are still being counted.
func less(a, b uint64) uint64 { return a - min(a, b) }

// add adds the totals of NIs that are gone.
func (c *Counters) add(o *Counters) {
	c.Sent += o.Sent
	c.Received += o.Received
	c.Dropped += o.Dropped
	c.SentBytes += o.SentBytes
	c.ReceivedBytes += o.ReceivedBytes
	c.DroppedBytes += o.DroppedBytes
}

// ResetCounters zeroes the node's counters, drops and refusals and the counts and
// latencies of every NI and peer NI. The gauges Committed and Trackers stay true, other
// than kernels'.
func (n *Node) ResetCounters() {
	n.made().infoMu.Lock()
	defer n.infoMu.Unlock()
	n.stats.committedMax.Store(n.stats.committed.Load())
	n.stats.responseTimeouts.Store(0)
	n.stats.resent.Store(0)
	n.stats.failedResends.Store(0)
	n.stats.successfulResends.Store(0)
	for k := range n.stats.status {
		n.stats.status[k].Store(0)
	}
	for r := range n.stats.drops {
		n.stats.drops[r].Store(0)
	}
	n.stats.passed.reset()
	n.stats.routed.reset()
	n.retired = Counters{}
	n.refusalsBefore = n.refusals()
	n.lo.stats.reset()
	for _, i := range n.topology.Load().nis {
		i.stats.reset()
	}
	n.peers.each(func(p *peerNI) { p.stats.reset() })
}
