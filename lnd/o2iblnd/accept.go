package o2iblnd

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
)

// maxConnsPerSource limits the inbound connections to one NI from one address.
const maxConnsPerSource = 2 * maxPerPeer

// request processes an inbound connection request. If the request is valid, it creates a connection and accepts
// the request; otherwise it rejects it (o2iblnd 3.3).
func (l *listener) request(e *verbs.Event) {
	d := l.d
	d.mu.Lock()
	users := slices.Clone(l.users)
	d.mu.Unlock()
	pl := protocol.Listener{Privileged: d.config.RequirePrivilegedPort, Check: d.config.Check}
	for _, i := range users {
		pl.NIs = append(pl.NIs, i.self())
	}
	var m protocol.Message
	ni, reject, err := pl.Judge(e.Remote.Port(), e.Private[:e.PrivateLen], &m)
	if err != nil {
		var i *Interface
		if len(users) > 0 {
			i = users[0]
		}
		l.refuse(i, e, &reject, misunderstood(&reject, err))
		return
	}
	i, self := users[ni], pl.NIs[ni]
	c, reject, err := i.admitCaller(e, &m, &self)
	if err != nil {
		l.refuse(i, e, &reject, err)
		return
	}
	e.ID.SetOwner(c)
	if c.hold() {
		c.accept(&m, &self)
		c.unref()
	}
}

// refuse rejects a caller with the message r, and counts and logs it. err is the reason. i is the interface
// that counts the caller; it is nil if no interface uses the listener any more.
func (l *listener) refuse(i *Interface, e *verbs.Event, r *protocol.Reject, err error) {
	var count *peering.Refusals // nil if no interface uses the listener any more
	if i != nil {
		count = &i.Count.Refused
	}
	count.Refused(l.d.log, e.Remote, err)
	var private [verbs.MaxRejectPrivate]byte
	_ = e.ID.Reject(r.Append(private[:0], byteOrder)) // fails only if the caller has disconnected
	e.ID.Destroy()
}

// admitCaller finds the peer that sent the request m, or creates it, and creates the connection. The caller of
// admitCaller then accepts the request. If the request must be rejected, admitCaller returns the message for
// that and an error.
func (i *Interface) admitCaller(e *verbs.Event, m *protocol.Message, self *protocol.Self) (*conn, protocol.Reject, error) {
	noRoom := self.NoRoom(m)
	from := e.Remote.Addr()
	if m.Src.Net() != i.Self.Net() {
		return nil, noRoom, lnd.Refuse(lnd.RefusedHello, "%s is not on the net of this NI", m.Src)
	}
	p, err := i.Caller(process(m.Src), from)
	if err != nil {
		return nil, noRoom, err
	}
	c := &conn{i: i, p: p, id: e.ID, refs: 1, begun: time.Now(), source: e.Remote}
	p.Lock()
	if p.Gone {
		p.Accepting--
		p.Unlock()
		i.callerLeft(from)
		return nil, noRoom, peering.ErrClosing
	}
	reject, ok := p.wire().Accept(m, self, p.Connected() || p.Accepting > 1)
	i.Observe(p, m.SrcStamp, from == p.ID.NID.IP())
	if !ok {
		list := slices.DeleteFunc(p.all(), func(o *conn) bool { return o.ours && !slices.Contains(p.conns, o) && !slices.Contains(p.ready, o) })
		p.Accepting--
		p.resume()
		p.putDown()
		p.Unlock()
		for _, o := range list {
			o.close(staleFailure())
		}
		i.Out.Run()
		i.callerLeft(from)
		return nil, reject, lnd.Refuse(lnd.RefusedStale, "its incarnation or version differs from that of its connections")
	}
	p.making = append(p.making, c)
	var evicted *peering.Newcomer[*conn]
	c.newcomer, evicted = i.driver.halfOpen.Enter(c, from)
	p.Unlock()
	i.Out.Run()
	if evicted != nil {
		evicted.Conn.close(evictedFailure(i.driver.halfOpen.Leave(evicted)))
	}
	return c, protocol.Reject{}, nil
}

// accept prepares the connection of a caller and accepts the request m. If it cannot, it rejects the request
// and closes the connection.
func (c *conn) accept(m *protocol.Message, self *protocol.Self) {
	var private [verbs.MaxAcceptPrivate]byte
	err := func() error {
		dev, _, err := c.i.driver.deviceOf(c.id)
		if err != nil {
			return err
		}
		c.dev = dev
		depth, err := c.createQP(min(self.Depth, int(m.Params.Depth)))
		if err != nil {
			return err
		}
		var ack protocol.Message
		c.session = self.Agree(m, depth, &ack)
		data, err := ack.Append(private[:0], byteOrder)
		if err != nil {
			return err
		}
		if c.i.Closed() {
			return peering.ErrClosing
		}
		c.mu.Lock()
		c.m.Accept()
		c.mu.Unlock()
		return c.id.Accept(c.param(data))
	}()
	if err != nil {
		r := self.NoRoom(m)
		_ = c.id.Reject(r.Append(private[:0], byteOrder)) // fails only if the caller has disconnected
		c.close(deviceFailure(&lnd.RefusedError{Reason: lnd.RefusedMany, Err: err}))
	}
}

// callerLeft undoes what Engine.Caller has counted for a caller, except Peer.Accepting, if it gets no
// connection.
func (i *Interface) callerLeft(from netip.Addr) {
	i.CallerLeft(from)
	i.Group.Done()
}
