package node

import (
	"slices"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// MessageCounts counts messages by type.
type MessageCounts struct {
	Put, Get, Reply, Ack, Hello uint64
}

// Total returns the sum over all types.
func (c MessageCounts) Total() uint64 { return c.Put + c.Get + c.Reply + c.Ack + c.Hello }

// Traffic holds the message counts and latencies of an NI or a peer NI (lnet-core 10.2).
type Traffic struct {
	// Sent counts like a kernel: an ACK is counted under Put, a REPLY under Get.
	Sent, Received, Dropped MessageCounts
	// PutEgress is the time from the call of Put until the driver has sent the message.
	// GetRTT is the time from a GET to its REPLY, and PutAck that from a PUT to its ACK; both
	// are measured only for requests whose responses are tracked.
	PutEgress, GetRTT, PutAck Latency
}

// HealthCounters counts the failures of an NI or a peer NI by their status.
type HealthCounters struct {
	// Failures of an NI.
	Interrupts, Dropped, Aborted, NoRoute, Timeouts, Errors uint64
	// Failures of a peer NI.
	RemoteDropped, RemoteTimeouts, RemoteErrors, NetworkTimeouts uint64
}

// Counters are the node's counters (lnet-core 10.1), in the order in which commands show
// them. Errors is always 0. Sent and Received do not include messages that the node
// forwards; these are counted in Routed.
type Counters struct {
	Committed, CommittedMax uint64 // messages under way now, and the most at one time (msgs_alloc, msgs_max)
	Trackers                uint64 // requests whose responses are tracked now (rst_alloc)
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

// trafficStats counts the messages of an NI or a peer NI by type. The node's totals are
// the sums over its NIs, so that a message needs no additional atomic operation for them.
type trafficStats struct {
	sent, received, dropped [messageTypes]atomic.Uint64
	status                  [statuses]atomic.Uint64
}

// peerStats holds the counters behind a peer NI's Traffic.
type peerStats struct {
	trafficStats
	latency [latencyKinds]latencyStats
}

// niStats holds the counters behind an NI's Traffic and Detail.
type niStats struct {
	trafficStats
	sentBytes, receivedBytes, droppedBytes [messageTypes]atomic.Uint64
	latency                                [latencyKinds]latencyHistogram
}

// Detail holds further figures of an NI. Unlike in Traffic, Sent counts messages by their
// own types.
type Detail struct {
	Sent MessageCounts
	// SentBytes, ReceivedBytes and DroppedBytes count payload.
	SentBytes, ReceivedBytes, DroppedBytes MessageCounts
	// PutEgress, GetRTT and PutAck are the distributions of the latencies in Traffic.
	PutEgress, GetRTT, PutAck LatencyHistogram
}

// sample adds a latency of ns nanoseconds to the figures of m's NI and peer NI.
func (m *message) sample(k latencyKind, ns int64) {
	ns = max(ns, 1)
	m.ni.stats.latency[k].add(ns)
	if m.peer != nil {
		m.peer.counters().latency[k].add(ns)
	}
}

// countSent counts a successful send of nbytes of payload.
func (m *message) countSent(t lnet.MsgType, nbytes int) {
	m.ni.stats.sent[t].Add(1)
	if nbytes > 0 {
		m.ni.stats.sentBytes[t].Add(uint64(nbytes))
	}
	if m.peer != nil {
		m.peer.counters().sent[t].Add(1)
	}
}

// countReceived counts a successful receive of nbytes of payload.
func (m *message) countReceived(t lnet.MsgType, nbytes int) {
	m.ni.stats.received[t].Add(1)
	if nbytes > 0 {
		m.ni.stats.receivedBytes[t].Add(uint64(nbytes))
	}
	if m.peer != nil {
		m.peer.counters().received[t].Add(1)
	}
}

// countDropped counts a dropped message with nbytes of payload.
func (i *ni) countDropped(p *peerNI, t lnet.MsgType, nbytes int) {
	i.stats.dropped[t].Add(1)
	i.stats.droppedBytes[t].Add(uint64(nbytes))
	if p != nil {
		p.counters().dropped[t].Add(1)
	}
}

func counts(c *[messageTypes]atomic.Uint64) MessageCounts {
	return MessageCounts{
		Put: c[lnet.MsgPut].Load(), Get: c[lnet.MsgGet].Load(), Reply: c[lnet.MsgReply].Load(),
		Ack: c[lnet.MsgAck].Load(), Hello: c[lnet.MsgHello].Load(),
	}
}

// asKernels converts the counts of sent messages to those of kernels: an ACK counts as
// Put, a REPLY as Get.
func (c MessageCounts) asKernels() MessageCounts {
	return MessageCounts{Put: c.Put + c.Ack, Get: c.Get + c.Reply, Hello: c.Hello}
}

func (s *trafficStats) messages() Traffic {
	return Traffic{Sent: counts(&s.sent).asKernels(), Received: counts(&s.received), Dropped: counts(&s.dropped)}
}

func (s *peerStats) traffic() Traffic {
	t := s.messages()
	for k, to := range []*Latency{&t.PutEgress, &t.GetRTT, &t.PutAck} {
		*to = s.latency[k].summary(s.latency[k].samples.Load())
	}
	return t
}

func (s *niStats) traffic() Traffic {
	t := s.messages()
	for k, to := range []*Latency{&t.PutEgress, &t.GetRTT, &t.PutAck} {
		*to = s.latency[k].summary(s.latency[k].samples())
	}
	return t
}

func (s *niStats) detail() Detail {
	return Detail{
		Sent: counts(&s.sent), SentBytes: counts(&s.sentBytes),
		ReceivedBytes: counts(&s.receivedBytes), DroppedBytes: counts(&s.droppedBytes),
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

// addTo adds the NI's messages and bytes to the node's totals in c.
func (s *niStats) addTo(c *Counters) {
	c.Sent += counts(&s.sent).Total()
	c.Received += counts(&s.received).Total()
	c.Dropped += counts(&s.dropped).Total()
	c.SentBytes += counts(&s.sentBytes).Total()
	c.ReceivedBytes += counts(&s.receivedBytes).Total()
	c.DroppedBytes += counts(&s.droppedBytes).Total()
}

func zero(all ...*[messageTypes]atomic.Uint64) {
	for _, c := range all {
		for k := range c {
			c[k].Store(0)
		}
	}
}

// reset zeroes counts and latencies but not health counters (lnet-core 10.1).
func (s *niStats) reset() {
	zero(&s.sent, &s.received, &s.dropped, &s.sentBytes, &s.receivedBytes, &s.droppedBytes)
	for k := range s.latency {
		s.latency[k].reset()
	}
}

func (s *peerStats) reset() {
	zero(&s.sent, &s.received, &s.dropped)
	for k := range s.latency {
		s.latency[k].samples.Store(0)
		s.latency[k].extremes.reset()
	}
}

// addTo adds the counts of s, and the sums of its latencies, to total.
func (s *peerStats) addTo(total *peerStats) {
	for _, c := range []struct{ from, to *[messageTypes]atomic.Uint64 }{
		{&s.sent, &total.sent}, {&s.received, &total.received}, {&s.dropped, &total.dropped},
	} {
		for k := range c.from {
			c.to[k].Add(c.from[k].Load())
		}
	}
	for k := range s.status {
		total.status[k].Add(s.status[k].Load())
	}
	for k := range s.latency {
		total.latency[k].samples.Add(s.latency[k].samples.Load())
		total.latency[k].sum.Add(s.latency[k].sum.Load())
	}
}

// nodeStats holds the counters that belong to no NI.
type nodeStats struct {
	committed, committedMax          atomic.Int64
	responseTimeouts                 atomic.Uint64
	resent                           atomic.Uint64
	failedResends, successfulResends atomic.Uint64
	status                           [statuses]atomic.Uint64
	drops                            dropTally
	// passed counts messages for other nodes that were received. routed counts the ones that
	// were then sent on.
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
func (a *Admin) Counters() Counters {
	n := a.n
	if !n.isMade() {
		return Counters{}
	}
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
	// The node's own messages are those of its NIs minus the routed ones. A routed message is
	// added to routed and passed before it is added to the counters of NIs, and the counters
	// of NIs are read first here. So a difference may be too small while messages are being
	// counted, but never too large. rise keeps the largest result so far, so that the
	// counters never decrease.
	rise := func(most, sum *uint64, routed uint64) {
		*most = max(*most, less(*sum, routed))
		*sum = *most
	}
	rise(&n.own.Sent, &c.Sent, c.Routed)
	rise(&n.own.SentBytes, &c.SentBytes, c.RoutedBytes)
	rise(&n.own.Received, &c.Received, passed.messages.Load())
	rise(&n.own.ReceivedBytes, &c.ReceivedBytes, passed.bytes.Load())
	return c
}

// less returns a-b. It returns 0 if b is larger, as it may be for a moment while messages
// are being counted.
func less(a, b uint64) uint64 { return a - min(a, b) }

// add adds o, the totals of NIs that were removed, to c.
func (c *Counters) add(o *Counters) {
	c.Sent += o.Sent
	c.Received += o.Received
	c.Dropped += o.Dropped
	c.SentBytes += o.SentBytes
	c.ReceivedBytes += o.ReceivedBytes
	c.DroppedBytes += o.DroppedBytes
}

// ResetCounters zeroes the node's counters, drops and refusals, and the counts and
// latencies of every NI and peer NI. Committed and Trackers, which show a current number,
// are not changed; kernels zero these too.
func (a *Admin) ResetCounters() {
	n := a.n
	if !n.isMade() {
		return
	}
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	n.resets.Add(1)
	defer n.resets.Add(1)
	n.removedStats.reset()
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
	n.retired, n.own = Counters{}, Counters{}
	n.refusalsBefore = n.refusals()
	n.lo.stats.reset()
	for _, i := range n.topology.Load().nis {
		i.stats.reset()
	}
	n.peers.each(func(p *peerNI) {
		if s := p.stats.Load(); s != nil {
			s.reset()
		}
	})
}
