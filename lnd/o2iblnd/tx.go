package o2iblnd

import (
	"encoding/binary"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

var byteOrder = binary.LittleEndian

// tx is a message that is sent on a connection, together with the registered memory that it uses.
type tx struct {
	protocol.Tx
	c    *conn
	m    *lnd.Tx
	form protocol.Type // type of the first protocol message: IMMEDIATE, PUT_REQ or GET_REQ

	buffer block               // the whole protocol message, for an IMMEDIATE with a payload
	bounce block               // a copy of the payload, for a PUT_REQ or GET_REQ whose memory is not registered
	source []protocol.Segment  // the payload of a PUT_REQ
	sink   protocol.Descriptor // where the peer writes the answer to a GET_REQ
	pieces []memory.Segment    // scratch space

	replied bool // the answer to a GET is in the sink
	length  int  // its length in bytes
}

// txs contains records for later messages.
var txs = sync.Pool{New: func() any {
	t := new(tx)
	t.Owner = t
	return t
}}

// headSize is the offset of the payload in an IMMEDIATE.
const headSize = protocol.MaxMessage - protocol.MaxPayload

// submit sends m on the connection. It returns false if the connection has ended. In that case it has not used
// m, and the caller tries another connection. If no registered memory is available, m waits for it.
func (c *conn) submit(m *lnd.Tx) bool {
	if c.dead.Load() || !c.hold() { // t keeps this reference, because it uses the device's memory
		return false
	}
	t, err := c.newTx(m)
	if err != nil {
		t.drop()
		ended := c.dead.Load()
		c.unref()
		if !ended {
			c.i.prepareFailed(m, err)
		}
		return !ended
	}
	now := time.Now()
	c.mu.Lock()
	if c.ending || c.m.State() != protocol.Established {
		c.mu.Unlock()
		t.drop()
		c.unref()
		return false
	}
	c.m.SetTimeout(c.i.Timeout()) // the timeout may have changed since the last tick
	t.submit(now)
	c.take(nil)
	c.unlock()
	return true
}

// newTx prepares m for the connection: it copies the payload into registered memory, or describes memory that
// is already registered. If it returns an error, which may be errNoMemory, the caller must call drop.
func (c *conn) newTx(m *lnd.Tx) (*tx, error) {
	t := txs.Get().(*tx)
	t.c, t.m = c, m
	t.replied, t.length = false, 0
	far := m.To.NID != m.Header.Dest
	t.form = protocol.Choose(m.Header.Type, m.Payload.Length, m.Sink.Length, far, false)
	var err error
	switch t.form {
	case protocol.PutReq:
		err = t.put()
	case protocol.GetReq:
		err = t.get()
	default:
		if m.Payload.Length > 0 {
			err = t.immediate()
		}
	}
	return t, err
}

// immediate copies the payload of a message that is sent without RDMA into registered memory.
func (t *tx) immediate() (err error) {
	n := t.m.Payload.Length
	if t.buffer, err = t.c.dev.allocFor(t.c.p, t.c.dev.local, ours, headSize+n); err != nil {
		return err
	}
	return copyOut(t.buffer.bytes()[headSize:headSize+n], t.m.Payload)
}

// put prepares the payload of a message that is sent by RDMA.
func (t *tx) put() (err error) {
	t.source, t.bounce, err = t.c.sourceOf(t.m.Payload, ours, t.source, &t.pieces)
	return err
}

// get prepares the memory for the answer to a GET, into which the peer writes by RDMA.
func (t *tx) get() (err error) {
	t.bounce, err = t.c.sinkOf(t.m.Sink, ours, &t.sink, &t.pieces)
	return err
}

// copyOut copies the bytes of from, which is memory of the program, into the slice to. It returns a
// *memory.Fault if a part of the program's memory is no longer accessible.
func copyOut(to []byte, from memory.Vector) error {
	if f := memory.Guard(func() { from.CopyTo(to) }); f != nil {
		return f
	}
	return nil
}

// copyIn copies the slice from into the vector to, which is memory of the program. It returns a *memory.Fault
// if a part of the program's memory is no longer accessible.
func copyIn(to memory.Vector, from []byte) error {
	if f := memory.Guard(func() { to.CopyFrom(from) }); f != nil {
		return f
	}
	return nil
}

// maxDirect is the maximum number of pieces of registered memory that a transfer uses directly. If the payload
// has more, it is copied through one block instead.
const maxDirect = 32

// sourceOf prepares v as the source of an RDMA transfer that the side r has started. It returns the memory that
// the device reads: v itself if all of it is registered with the device and has few pieces, and otherwise a
// copy in a block of the pool. The caller frees the block when the transfer has ended. list and pieces are
// reused.
func (c *conn) sourceOf(v memory.Vector, r role, list []protocol.Segment, pieces *[]memory.Segment) ([]protocol.Segment, block, error) {
	list = list[:0]
	*pieces = v.AppendSegments((*pieces)[:0])
	defer clear(*pieces)
	direct := len(*pieces) <= min(maxDirect, c.gather()*c.session.Fragments) // more pieces would need too many WRITEs
	for k := 0; direct && k < len(*pieces); k++ {
		s := &(*pieces)[k]
		reg, addr := c.registered(s)
		if direct = reg != nil; direct {
			list = append(list, protocol.Segment{Addr: addr, Key: reg.mem.LKey(), Length: uint32(len(s.Bytes))})
		}
	}
	if direct {
		c.i.counters.direct.Add(1)
		return list, block{}, nil
	}
	b, err := c.dev.allocFor(c.p, c.dev.local, r, v.Length)
	if err != nil {
		return list[:0], block{}, err
	}
	c.i.counters.bounced.Add(1)
	list = append(list[:0], protocol.Segment{Addr: b.addr(), Key: b.mem.LKey(), Length: uint32(v.Length)})
	return list, b, copyOut(b.bytes()[:v.Length], v)
}

// sinkOf prepares v as the target of an RDMA transfer that the side r has started, and describes the memory to
// the peer in d. The peer writes into v itself if all of it lies in one registration with the device and has
// few pieces, and otherwise into a block of the pool. The caller copies from the block and frees it when the
// transfer has ended. pieces is reused.
func (c *conn) sinkOf(v memory.Vector, r role, d *protocol.Descriptor, pieces *[]memory.Segment) (block, error) {
	d.Fragments = d.Fragments[:0]
	*pieces = v.AppendSegments((*pieces)[:0])
	defer clear(*pieces)
	var in *key
	direct := len(*pieces) <= min(c.session.Fragments, maxDirect)
	for k := 0; direct && k < len(*pieces); k++ {
		s := &(*pieces)[k]
		reg, addr := c.registered(s)
		if direct = reg != nil && (in == nil || in == reg); !direct {
			break
		}
		in = reg
		n := len(d.Fragments)
		if n > 0 && d.Fragments[n-1].Addr+uint64(d.Fragments[n-1].Length) == addr {
			d.Fragments[n-1].Length += uint32(len(s.Bytes))
			continue
		}
		d.Fragments = append(d.Fragments, protocol.Fragment{Addr: addr, Length: uint32(len(s.Bytes))})
	}
	if direct && in != nil {
		d.Key = in.mem.RKey()
		c.i.counters.direct.Add(1)
		return block{}, nil
	}
	b, err := c.dev.allocFor(c.p, c.dev.remote, r, v.Length)
	if err != nil {
		return block{}, err
	}
	c.i.counters.bounced.Add(1)
	d.Key = b.mem.RKey()
	d.Fragments = append(d.Fragments[:0], protocol.Fragment{Addr: b.addr(), Length: uint32(v.Length)})
	return b, nil
}

// registered returns the key of a piece of memory on the connection's device, and the address that the device
// uses for it. It returns nil if the piece is not registered with this device.
func (c *conn) registered(s *memory.Segment) (*key, uint64) {
	r, _ := s.Registration(c.i).(*registration)
	if r == nil {
		return nil, 0
	}
	k := r.key.Load()
	if k == nil || k.dev != c.dev {
		return nil, 0
	}
	return k, r.address(k, s.Bytes)
}

// submit passes t to the state machine. c.mu is held.
func (t *tx) submit(now time.Time) {
	c, h := t.c, &t.m.Header
	c.i.counters.sending(t.form, t.m)
	t.Urgent = t.m.Urgent
	switch t.form {
	case protocol.PutReq:
		c.m.Put(now, &t.Tx, h, t.source, &c.b)
	case protocol.GetReq:
		c.m.Get(now, &t.Tx, h, &t.sink, &c.b)
	default:
		c.m.Immediate(now, &t.Tx, h, &c.b)
	}
}

// done returns the error with which t completes, and records the answer to a GET. c.mu is held.
func (t *tx) done(d *protocol.Done) error {
	switch {
	case d.Recalled:
		return t.c.p.i.Error("send", t.c.p.ID.NID, lnd.StatusLocalInterrupt, lnd.ErrRecalled)
	case d.Failure != nil:
		err := t.c.p.i.failed("send", t.c.p.ID.NID, d.Failure)
		err.Status = resendable(err.Status, t.Begun(), t.c.ending)
		return err
	case d.Replied && d.Sure < d.Length:
		f := &protocol.Failure{Health: protocol.RemoteError, Errno: syscall.EIO, Err: errShortAnswer}
		return t.c.p.i.Error("get", t.c.p.ID.NID, lnd.StatusRemoteError, f)
	}
	t.replied, t.length = d.Replied, d.Length
	return nil
}

// resendable returns the health class of a message that has failed with class s. A class that permits a resend
// remains so only if nothing of the message was posted (begun is false), because otherwise the peer may have
// seen it. A PUT whose PUT_DONE is queued has been matched by the peer; a kernel resends it and risks a
// duplicate (o2iblnd 13.3). ending means that the connection was being closed when the message failed.
func resendable(s lnd.Status, begun, ending bool) lnd.Status {
	switch {
	case begun && s == lnd.StatusRemoteDropped:
		return lnd.StatusRemoteError
	case begun && (s == lnd.StatusLocalAborted || s == lnd.StatusLocalTimeout):
		return lnd.StatusLocalError
	case !begun && s == lnd.StatusLocalError && ending:
		return lnd.StatusLocalDropped
	}
	return s
}

// finish completes the message with err for the event evSent. No lock is held.
func (t *tx) finish(err error) {
	c, m := t.c, t.m
	if err == nil && t.replied {
		if t.bounce.ok() {
			if fault := copyIn(m.Sink, t.bounce.bytes()[:t.length]); fault != nil {
				err = c.p.i.Error("get", c.p.ID.NID, lnd.StatusLocalError, fault)
			}
		}
		m.Replied, m.ReplyLength = err == nil, t.length
		c.i.counters.bytesReceived.Add(uint64(t.length))
	}
	t.drop()
	c.unref() // the event's reference
	c.unref() // the reference of t
	m.Done.Sent(m, err)
}

// drop frees the memory that t uses, and t itself.
func (t *tx) drop() {
	dev := t.c.dev
	if t.buffer.ok() {
		dev.freeFor(t.c.p, dev.local, ours, t.buffer)
	}
	if t.bounce.ok() {
		if t.form == protocol.GetReq {
			dev.freeFor(t.c.p, dev.remote, ours, t.bounce)
		} else {
			dev.freeFor(t.c.p, dev.local, ours, t.bounce)
		}
	}
	t.buffer, t.bounce = block{}, block{}
	t.c, t.m = nil, nil
	txs.Put(t)
}

// prepareFailed is called if newTx has failed for m with err. m waits if no memory is available now; otherwise
// it fails.
func (i *Interface) prepareFailed(m *lnd.Tx, err error) {
	if errors.Is(err, errNoMemory) {
		i.waitForMemory(memoryWaiter{m: m, since: time.Now()})
		return
	}
	i.Out.Add(peering.Failed(m, i.Error("send", m.To.NID, lnd.StatusLocalError, err)))
}

// checkHeader returns an error if the protocol cannot carry the header, because it has a large NID.
func checkHeader(h *lnet.Header) error {
	if h.Src.IsLarge() || h.Dest.IsLarge() {
		return lnd.ErrLargeNID
	}
	return nil
}
