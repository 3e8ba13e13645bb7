package coretest

import (
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// where is the owner of a buffer in the model.
type where uint8

const (
	withProgram where = iota
	withTM
	withPool
)

// bufferModel is the model of a buffer: its state as the specification defines it.
type bufferModel struct {
	real  *transport.Buffer // nil for a buffer of a pool that the program has not seen yet
	host  int
	size  int
	pool  *poolModel // the owning pool, or nil
	where where

	// The fields below are valid while a TM owns the buffer.
	tm       *tmModel
	action   action // the action that added it
	open     bool   // messages or data can still reach the buffer
	offset   int    // where the next message will be
	received int    // messages received
	reported int    // number of messages whose events the program has received
	seed     int    // seed of the pattern that the buffer sends
	bits     uint64
	limit    int // number of bytes that a peer may read or write
	added    time.Time
	deadline time.Time
	coming   []outcome // expected events
	parts    []outcome // messages reported

	// colour is valid while a pool owns the buffer.
	colour uint32

	// The fields below are used during a concurrent run.
	owner           int  // the lane that adds the buffer
	adds, finals    int  // number of adds and of final events
	cancelRequested bool // a lane has called Cancel, perhaps too late
	ends            int  // value of adds for which Cancel has certainly succeeded
	logged          *announcement
}

// outcome is an expected event.
type outcome struct {
	final          bool
	cancelled      bool
	late           bool // with cancelled: the deadline is the cause
	length, offset int
	sender         transport.Address
	seed           int // seed of the expected pattern, if data is set
	data           bool
}

// pendingEvent is an expected state event of a TM.
type pendingEvent struct {
	next transport.State
	err  syscall.Errno // 0 means no error
}

// tmModel is the model of a TM.
type tmModel struct {
	real    *transport.TransferMachine
	slot    int
	host    int
	address transport.Address
	state   transport.State

	synchronous bool
	pool        *poolModel
	how         action // parameters of buffers that the TM takes from the pool
	colour      uint32
	length      int
	deficit     int
	bits        transport.MatchBits // match bits of the last passive buffer

	queues        [transport.QueueTypes][]*bufferModel
	stats         [transport.QueueTypes]transport.Stats
	pendingEvents []pendingEvent
	held          []*transport.EndPoint

	peak       int  // largest number of events that the queued buffers could have
	delivering bool // DeliverAll is running
	reported   int  // number of buffer callbacks called so far
	running    int32

	// The fields below are used during a concurrent run.
	aborted bool
	closed  bool
	cancels int // number of successful calls of Cancel
	adds    [transport.QueueTypes]uint64
}

// poolModel is the model of a pool. Its free buffers are in the order in which they were returned.
type poolModel struct {
	real      *transport.Pool
	host      int
	config    transport.PoolConfig
	free      []*bufferModel
	out       int
	notEmpty  int // expected calls of NotEmpty
	low       int // expected calls of Low
	lastCalls poolCalls
	threshold int
}

// up reports whether messages can reach the TM.
func (m *tmModel) up() bool {
	return m != nil && (m.state == transport.StateStarted || m.state == transport.StateStopping)
}

// waits reports whether buffers on queue q wait until a peer sends or fetches data.
func waits(q transport.QueueType) bool {
	return q != transport.MsgSend && q < transport.ActiveBulkRecv
}

// busy reports whether the TM has an operation that does not wait for a peer, so that it may end at any
// moment.
func (m *tmModel) busy() bool {
	for q := range m.queues {
		if len(m.queues[q]) > 0 && !waits(transport.QueueType(q)) {
			return true
		}
	}
	return false
}

// queued returns the number of buffers on all queues.
func (m *tmModel) queued() int {
	n := 0
	for _, q := range m.queues {
		n += len(q)
	}
	return n
}

// receiver returns the buffer that will receive the next message, or nil.
func (m *tmModel) receiver() *bufferModel {
	for _, b := range m.queues[transport.MsgRecv] {
		if b.open {
			return b
		}
	}
	return nil
}

// arrive updates the model for a message of n bytes to the TM. It returns false if the message is lost
// because there is no buffer, or because the message is longer than the first buffer accepts (transport 6.8).
func (m *tmModel) arrive(n, seed int, from transport.Address) bool {
	b := m.receiver()
	if b == nil || n > b.action.Min {
		return false
	}
	o := outcome{length: n, offset: b.offset, sender: from, seed: seed, data: true}
	b.offset += n
	b.received++
	if b.received == b.action.Max || b.size-b.offset < b.action.Min {
		o.final, b.open = true, false
	}
	b.coming = append(b.coming, o)
	return true
}

// end updates the model for the end of an operation by Cancel, Stop or its deadline. late means that the
// deadline is the cause.
func (b *bufferModel) end(late bool) {
	if b.open {
		b.open = false
		b.coming = append(b.coming, outcome{final: true, cancelled: true, late: late})
	}
}

// link puts a buffer on the queue of the model.
func (m *tmModel) link(b *bufferModel, d action) {
	b.where, b.tm, b.action, b.open = withTM, m, d, true
	b.offset, b.received, b.reported, b.parts, b.coming = 0, 0, 0, nil, nil
	b.added = time.Now()
	m.queues[d.Queue] = append(m.queues[d.Queue], b)
	m.stats[d.Queue].Adds++
	events := 0
	for q, all := range m.queues {
		for _, b := range all {
			if q == int(transport.MsgRecv) {
				events += b.action.Max
			} else {
				events++
			}
		}
	}
	m.peak = max(m.peak, events)
}

// reportState updates the model for an event (transport 3.10): the buffer leaves the queue if the event is
// final, statistics change, and the receive queue is filled again.
func (m *tmModel) reportState(b *bufferModel, o outcome, at time.Time) {
	q := b.action.Queue
	stats := &m.stats[q]
	if o.cancelled {
		stats.Failures++
	} else {
		n := uint64(o.length)
		if q == transport.MsgSend || q == transport.PassiveBulkSend || q == transport.ActiveBulkSend {
			n = uint64(b.action.Length)
		}
		stats.Successes++
		stats.Bytes += n
		stats.MaxBytes = max(stats.MaxBytes, n)
	}
	if q == transport.MsgRecv && !o.cancelled {
		b.reported++
		b.parts = append(b.parts, o)
	}
	if !o.final {
		return
	}
	stats.TimeInQueue += at.Sub(b.added)
	i := slices.Index(m.queues[q], b)
	m.queues[q] = slices.Delete(m.queues[q], i, i+1)
	b.where, b.tm = withProgram, nil
	if q == transport.MsgRecv {
		m.provision()
	}
}

// provision fills the receive queue of the model from its pool (transport 5.2).
func (m *tmModel) provision() {
	if m.state != transport.StateStarted || m.pool == nil {
		return
	}
	need := m.length - len(m.queues[transport.MsgRecv])
	for need > 0 {
		b := m.pool.get(m.colour)
		if b == nil {
			break
		}
		b.deadline = time.Time{}
		m.link(b, m.how)
		need--
	}
	deficit := max(need, 0)
	if deficit > m.deficit {
		m.stats[transport.MsgRecv].Failures += uint64(deficit - m.deficit)
	}
	m.deficit = deficit
}

// stop updates the model for a successful Stop or, if abort is set, Abort.
func (m *tmModel) stop(abort bool) {
	m.state, m.deficit = transport.StateStopping, 0
	if abort {
		m.abort()
	}
	m.pendingEvents = append(m.pendingEvents, pendingEvent{next: transport.StateStopped})
}

// abort cancels all queued buffers of the model.
func (m *tmModel) abort() {
	for q := range m.queues {
		for _, b := range m.queues[q] {
			m.stats[q].Cancels++
			b.end(false)
		}
	}
}

// get takes a buffer from the pool of the model (transport 4), or returns nil. It prefers the buffer of the
// given colour that was returned last. Otherwise it takes the longest free buffer without a colour, and
// otherwise the longest free buffer of all.
func (p *poolModel) get(colour uint32) *bufferModel {
	if len(p.free) == 0 {
		return nil
	}
	at := 0
	for i := len(p.free) - 1; i >= 0; i-- {
		if p.free[i].colour == transport.AnyColour {
			at = i
		}
	}
	for i, b := range p.free {
		if colour != transport.AnyColour && b.colour == colour {
			at = i
		}
	}
	b := p.free[at]
	p.free = slices.Delete(p.free, at, at+1)
	p.out++
	b.where = withProgram
	if len(p.free) < p.threshold {
		p.low++
	}
	return b
}

// put returns a buffer to the pool of the model. The caller must serve the TMs that lack buffers.
func (p *poolModel) put(b *bufferModel, colour uint32) {
	b.where, b.colour = withPool, colour
	p.free = append(p.free, b)
	if len(p.free) == 1 {
		p.notEmpty++
	}
}
