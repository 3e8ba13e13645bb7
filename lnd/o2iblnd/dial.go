package o2iblnd

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
)

// dialNext queues an attempt to connect to a peer. The attempt starts when the interface's limits permit it.
func (i *Interface) dialNext(p *peer) {
	to := i.CalleeFor(p)
	p.Lock()
	p.calls = append(p.calls, i.calls.Add(to, p))
	p.Unlock()
	i.admit()
}

// admit starts queued attempts to connect, as many as the interface's limits permit.
func (i *Interface) admit() {
	for !i.Closed() {
		call := i.calls.Next()
		if call == nil {
			return
		}
		call.Of.dial(call)
	}
}

// called ends an attempt of this node to connect, after it has failed or its connection is established. Another
// queued attempt may then start.
func (i *Interface) called(c *conn) {
	if c.call != nil {
		i.calls.End(c.call)
		c.call = nil
		i.admit()
	}
}

// needed reports whether queued attempts to connect to the peer are still needed: it has fewer connections than
// conns_per_peer or, while it has no connections, messages wait for one. p is locked.
func (p *peer) needed() bool {
	if up := len(p.conns) + len(p.ready); up > 0 {
		return up < p.i.options.Load().ConnsPerPeer
	}
	return p.Waiting.Len() > 0
}

// cancelCalls cancels the attempts that are queued and have not started. p is locked.
func (p *peer) cancelCalls() {
	for _, call := range p.calls {
		p.i.calls.End(call)
		p.spread.Failed()
	}
	p.calls = nil
}

// dial starts a queued attempt to connect. It does nothing if the attempt has been canceled. Only the keeper
// calls it.
func (p *peer) dial(call *peering.Call[*peer]) {
	i := p.i
	c := &conn{i: i, p: p, ours: true, call: call, refs: 1, begun: time.Now()}
	p.Lock()
	k := slices.Index(p.calls, call)
	if k < 0 { // the attempt has been canceled
		p.Unlock()
		return
	}
	i.Group.Add(1)
	p.calls = slices.Delete(p.calls, k, k+1)
	p.making = append(p.making, c)
	p.Unlock()
	i.counters.calls.Add(1)
	d := i.driver
	at := netip.AddrPortFrom(p.ID.NID.IP(), uint16(d.config.Service))
	err := d.dial(c, verbs.Dial{
		From: i.Address, To: at, Privileged: d.config.UsePrivilegedPort, Timeout: protocol.ResolveTimeout,
		TOS: i.options.Load().TOS + 1,
	})
	switch {
	case i.Closed(): // Close may have run before c was in p.making, so that it did not close c
		c.close(aborted(peering.ErrClosing))
	case err != nil:
		c.close(unconnected(err))
	}
}

// unconnected returns the failure of an attempt to connect that ended with the error err of package verbs.
func unconnected(err error) *protocol.Failure {
	errno := syscall.ENETDOWN
	var e syscall.Errno
	if errors.As(err, &e) {
		errno = e
	}
	return protocol.Unconnected(errno, err)
}

// event processes an event of the CM (connection manager) for the connection (o2iblnd 12.6).
func (c *conn) event(e *verbs.Event) {
	switch e.Kind {
	case verbs.EventAddrResolved:
		if err := c.id.ResolveRoute(protocol.ResolveTimeout); err != nil {
			c.close(unconnected(err))
		}
	case verbs.EventRouteResolved:
		if err := c.requestConnection(); err != nil {
			c.close(unconnected(err))
		}
	case verbs.EventAddrError:
		c.close(protocol.CMAddrError.Failure())
	case verbs.EventRouteError:
		c.close(protocol.CMRouteError.Failure())
	case verbs.EventUnreachable:
		c.closeUnestablished(protocol.CMUnreachable.Failure())
	case verbs.EventConnectError:
		c.closeUnestablished(protocol.CMConnectError.Failure())
	case verbs.EventRejected:
		c.rejected(e)
	case verbs.EventEstablished:
		c.connected(e)
	case verbs.EventDisconnected:
		if !c.closeUnestablished(protocol.CMDisconnected.Failure()) {
			c.close(&protocol.Failure{Health: protocol.LocalError, Errno: syscall.ECONNABORTED, Err: errPeerGone})
		}
	case verbs.EventDeviceRemoval:
		if c.dev != nil {
			c.i.driver.removed(c.dev)
		}
		c.close(deviceFailure(errDeviceGone))
	case verbs.EventAddrChange, verbs.EventTimewaitExit, verbs.EventConnectRequest:
	}
}

// closeUnestablished closes the connection because of f if it was never established. It returns false, and does
// nothing, if it was.
func (c *conn) closeUnestablished(f *protocol.Failure) bool {
	if c.up {
		return false
	}
	c.close(f)
	return true
}

// requestConnection creates the queue pair and sends the connection request to the peer (o2iblnd 3.2 step 4).
func (c *conn) requestConnection() error {
	dev, _, err := c.i.driver.deviceOf(c.id)
	if err != nil {
		return err
	}
	c.dev = dev
	p, self := c.p, c.i.self()
	depth, err := c.createQP(self.Depth)
	if err != nil {
		return err
	}
	self.Depth = depth
	p.Lock()
	p.wire().Request(&self, p.ID.NID, &c.request)
	p.Unlock()
	var private [verbs.MaxConnectPrivate]byte
	data, err := c.request.Append(private[:0], byteOrder)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.m.Connect(time.Now())
	c.mu.Unlock()
	return c.id.Connect(c.param(data))
}

func (c *conn) param(data []byte) verbs.ConnParam {
	d := &c.i.driver.config
	return verbs.ConnParam{Private: data, Retries: uint8(d.RetryCount), RNRRetries: uint8(d.RNRRetryCount)}
}

// maxInline is the maximum size of a message that is copied when it is posted, in bytes. Messages without payload
// are not larger, except for the largest GET_REQs and PUT_ACKs.
const maxInline = 160

// createQP creates the connection's queue pair and posts its receives. It first tries the given queue depth,
// and then smaller ones if the device has too few resources. It returns the depth of the queue pair (o2iblnd
// 3.6, 11).
func (c *conn) createQP(depth int) (int, error) {
	for {
		err := c.tryQP(depth)
		if err == nil || !verbs.Full(err) || depth/2 < protocol.MinDepth {
			return depth, err
		}
		depth /= 2
	}
}

func (c *conn) tryQP(depth int) error {
	recvs, sends := protocol.ReceiveBuffers(protocol.V2, depth), c.sendQueue()
	q, err := c.dev.queueFor(recvs + sends)
	if err != nil {
		return err
	}
	size := verbs.QP{CQ: q.cq, Sends: sends, Recvs: recvs, SendPieces: c.gather(), Inline: maxInline}
	err = c.id.CreateQP(&size)
	if errors.Is(err, syscall.EINVAL) { // the device cannot copy so many bytes
		size.Inline = 0
		err = c.id.CreateQP(&size)
	}
	if err != nil {
		q.releaseEntries(recvs + sends)
		return err
	}
	m := protocol.NewConn(c.settings())
	c.q, c.entries, c.inline, c.awaited = q, recvs+sends, min(size.Inline, maxInline), make([]bool, m.Slots())
	q.enter(c)
	err = c.allocMessages(recvs, m.Slots())
	c.mu.Lock()
	c.m = m
	c.mu.Unlock()
	if err != nil {
		return err
	}
	list := make([]verbs.Recv, recvs)
	for n := range list {
		list[n] = c.recv(n)
	}
	_, _, err = c.id.Post(list, nil, nil)
	return err
}

// allocMessages allocates the connection's message buffers.
func (c *conn) allocMessages(recvs, slots int) error {
	for n := range recvs + slots {
		b, err := c.dev.local.alloc(protocol.MaxMessage)
		if err != nil {
			return err
		}
		if n < recvs {
			c.recvs = append(c.recvs, b)
		} else {
			c.slots = append(c.slots, b)
		}
	}
	return nil
}

// connected processes the event that the connection is established. For a connection of this node, the event
// contains the peer's answer to the request. For an inbound connection, it confirms that the answer has arrived
// at the peer.
func (c *conn) connected(e *verbs.Event) {
	if c.up || c.dead.Load() || c.m == nil {
		return
	}
	p := c.p
	if c.ours {
		var m protocol.Message
		_, err := m.Decode(e.Private[:e.PrivateLen], c.i.driver.config.Check)
		if err == nil {
			p.Lock()
			c.session, err = p.wire().Connected(&c.request, &m)
			p.Unlock()
		}
		if err != nil {
			c.close(&protocol.Failure{Health: protocol.LocalError, Errno: syscall.ECONNABORTED, Err: peering.Malformed(err)})
			return
		}
		c.i.Count.Connects.Add(1)
	} else {
		c.i.Count.Accepts.Add(1)
	}
	c.up = true
	c.leaveHalfOpen()
	if c.ours {
		c.i.keeper.do(task{kind: taskCalled, c: c})
	}
	p.established(c)
}

// rejected decides what follows after the peer has rejected this node's request, and closes the connection
// (o2iblnd 6).
func (c *conn) rejected(e *verbs.Event) {
	if !c.ours {
		c.close(protocol.CMDisconnected.Failure())
		return
	}
	p := c.p
	p.Lock()
	d := p.wire().Rejected(time.Now(), protocol.Rejection{
		Request: &c.request, Status: int(e.Status), Data: e.Private[:e.PrivateLen],
		Waiting: p.Waiting.Len() > 0, Calling: p.Accepting > 0,
	})
	p.Record.Home = p.Record.Home || e.Status == verbs.RejectConsumer && d.Why != 0 // the driver at the peer's address has answered
	p.Unlock()
	f := d.Failure
	if f == nil {
		f = protocol.Unconnected(syscall.ECONNREFUSED, errors.New(d.Why.String()))
	} else {
		f.Err = turnedAway(e, &d, f.Err)
	}
	c.closeFor(f, &d)
}
