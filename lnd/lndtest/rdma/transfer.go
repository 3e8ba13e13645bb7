package rdma

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// transfer is a message in transit, from Send to its last completion on either side:
//
//	IMMEDIATE  message with the payload
//	PUT        request; placement, PUT_ACK; RDMA WRITE by the sender, PUT_DONE
//	GET        request with its sink; placement, RDMA WRITE by the receiver, GET_DONE
//
// It is guarded by the fabric's lock.
type transfer struct {
	tx     *lnd.Tx // nil: the sender has completed it
	from   *Interface
	end    *end // the sender's
	kind   kind
	source buffer // of a PUT; of an IMMEDIATE, at the receiver
	sink   buffer // of a GET

	rx        lnd.Rx
	stage     stage
	placement lnd.Placement
	target    buffer // of a PUT, at the receiver
	credit    bool   // the receiver has not returned the credit
	failure   error  // reason of an early end
}

type kind uint8

const (
	immediate kind = iota
	put
	get
)

// stage is the receiver's progress.
type stage uint8

const (
	unseen  stage = iota
	telling       // Arrived is running
	parked        // Arrived has returned without a placement
	placing       // the receiver waits for PUT_DONE
	done
)

// to returns the receiver.
func (m *transfer) to() *Interface { return m.end.other.i }

// sent completes the message at the sender, in the sender's goroutine. The lock is held.
func (m *transfer) sent(err error) {
	tx := m.tx
	if tx == nil {
		return
	}
	m.tx = nil
	m.sink.release()
	if m.kind == put {
		m.source.release()
	}
	m.from.post(func() { tx.Done.Sent(tx, err) })
}

// announce sends the first message of the transfer. The lock is held.
func (m *transfer) announce() {
	i, tx := m.from, m.tx
	size := i.driver.limits.Immediate
	switch {
	case tx.Payload.Length > size:
		m.kind = put
		m.source = i.buffer(tx.Payload)
		m.source.load()
		i.counters.puts++
	case tx.Header.Type == lnet.MsgGet && tx.Sink.Length > size && tx.To.NID == tx.Header.Dest:
		m.kind = get
		m.sink = i.buffer(tx.Sink)
		i.counters.gets++
	default:
		m.immediate()
	}
	m.rx = lnd.Rx{
		Header: tx.Header, From: lnet.ProcessID{NID: i.nid, PID: lnet.PIDLustre},
		RDMA: m.kind == get, Driver: m,
	}
	m.credit = true
	to := m.to()
	to.post(m.arrive)
	if m.kind == immediate {
		m.sent(nil)
	}
}

// immediate sends the payload with the message: from one message buffer into one that the receiver has
// posted.
func (m *transfer) immediate() {
	i, to, payload := m.from, m.to(), m.tx.Payload
	i.counters.immediate++
	if payload.Length == 0 {
		return
	}
	out, in := i.device.borrow(payload.Length), to.device.borrow(payload.Length)
	payload.CopyTo(out.bytes)
	i.fabric.write(&i.device, []piece{{out.bytes, out}}, &to.device, []piece{{in.bytes, in}}, payload.Length)
	i.device.giveBack(out)
	m.source = buffer{bounce: in}
}

// arrive calls Arrived of the receiver, in the receiver's goroutine.
func (m *transfer) arrive() {
	f, i := m.from.fabric, m.to()
	f.mu.Lock()
	if m.failure != nil {
		m.settle()
		f.mu.Unlock()
		return
	}
	m.stage = telling
	i.heard[m.end.i.nid] = time.Now()
	f.mu.Unlock()
	err := i.upper.Arrived(&m.rx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		m.settle()
		m.end.other.kill(lnd.StatusRemoteError, errors.Join(lnd.ErrProtocol, err))
		return
	}
	m.stage = parked
	if m.failure != nil {
		m.withdraw()
	}
}

// withdraw reports that no payload will come, unless the message is placed. It follows a placement within
// Arrived. The lock is held.
func (m *transfer) withdraw() {
	f, i := m.from.fabric, m.to()
	i.post(func() {
		f.mu.Lock()
		waits := m.stage == parked
		f.mu.Unlock()
		if waits {
			i.upper.Withdrawn(&m.rx)
		}
	})
}

// settle completes the receiver's part. The lock is held.
func (m *transfer) settle() {
	m.stage = done
	m.free()
	m.repay()
}

// free releases the receiver's memory.
func (m *transfer) free() {
	m.target.release()
	if m.kind == immediate && m.source.bounce != nil {
		m.source.release()
	}
}

// repay returns the credit to the sender.
func (m *transfer) repay() {
	if m.credit {
		m.credit = false
		m.end.credits++
		m.end.pump()
	}
}

// cut ends a transfer because its connection is lost. The lock is held.
func (m *transfer) cut(err error) {
	m.failure = err
	m.sent(err)
	m.free()
	switch m.stage {
	case parked:
		m.withdraw()
	case placing:
		p := m.placement
		m.settle()
		m.to().post(func() { m.received(p, m.lost()) })
	case unseen, telling, done: // arrive handles it, or it is complete
	}
}

// lost returns the receiver's error.
func (m *transfer) lost() error {
	return failure("receive", m.rx.From.NID, lnd.StatusNetworkTimeout, lnd.ErrDisconnected)
}

// received completes the message at the receiver.
func (m *transfer) received(p lnd.Placement, err error) {
	if p.Done != nil {
		p.Done.Received(&m.rx, err)
	}
}

// place handles the placement, in the receiver's goroutine.
func (m *transfer) place(p lnd.Placement) {
	f := m.from.fabric
	f.mu.Lock()
	if m.failure != nil {
		m.settle()
		f.mu.Unlock()
		m.received(p, m.lost())
		return
	}
	switch m.kind {
	case put:
		m.ready(p)
		return
	case get:
		m.reply(p)
	case immediate:
		if m.source.bounce != nil {
			p.Memory.CopyFrom(m.source.bounce.bytes)
		}
	}
	m.finish()
	f.mu.Unlock()
	m.received(p, nil)
}

// finish ends a completed transfer. The lock is held.
func (m *transfer) finish() {
	m.end.over(m)
	m.settle()
}

var errNothing = errors.New("nothing there")

// reply writes the answer to a GET into its sink and notifies the requester (o2iblnd 10.3). The lock is
// held.
func (m *transfer) reply(p lnd.Placement) {
	i, tx := m.to(), m.tx
	if p.Done == nil {
		m.sent(failure("send", m.end.peer, lnd.StatusRemoteError, errNothing))
		return
	}
	n := p.Reply.Length
	if n > tx.Sink.Length {
		i.fabric.violated("an answer of %d bytes to a request for %d", n, tx.Sink.Length)
		n = tx.Sink.Length
	}
	from := i.buffer(p.Reply)
	from.load()
	i.fabric.write(&i.device, from.pieces, &m.from.device, m.sink.pieces, n)
	from.release()
	m.sink.unload(n)
	tx.Replied, tx.ReplyLength = true, n
	m.sent(nil)
}

// ready tells the sender of a PUT the address for its payload, or that the payload is not wanted (o2iblnd
// 10.2). The lock is held, and released.
func (m *transfer) ready(p lnd.Placement) {
	f := m.from.fabric
	if p.Done == nil || p.Memory.Length == 0 { // PUT_NAK
		m.sent(nil)
		m.finish()
		f.mu.Unlock()
		m.received(p, nil)
		return
	}
	m.stage, m.placement = placing, p
	m.target = m.to().buffer(p.Memory)
	m.repay()
	m.from.post(m.transmit)
	f.mu.Unlock()
}

// transmit moves the payload, in the sender's goroutine, and notifies the receiver.
func (m *transfer) transmit() {
	f := m.from.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.failure != nil {
		return
	}
	p, i := m.placement, m.to()
	f.write(&m.from.device, m.source.pieces, &i.device, m.target.pieces, p.Memory.Length)
	m.target.unload(p.Memory.Length)
	m.sent(nil)
	m.finish()
	i.post(func() { m.received(p, nil) })
}
