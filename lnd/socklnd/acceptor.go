package socklnd

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Limits on what a peer may open (decisions 9).
const (
	maxBulkConns = 127
	// maxConnsPerSource limits the inbound connections to one NI from one address: one CONTROL and the
	// maximum of each other type.
	maxConnsPerSource = 3*maxBulkConns + 1
	// lastPrivilegedPort is the highest source port that accept=secure admits.
	lastPrivilegedPort = 1023
	// acceptPause is the pause after a failed accept, which usually means that no descriptor is free.
	acceptPause = 50 * time.Millisecond
)

// acceptor listens on one address for all interfaces that have it.
type acceptor struct {
	d        *Driver
	listener Listener
	closed   chan struct{} // closed by close
	users    []*Interface  // guarded by Driver.mu
}

// listen makes i reachable on its listening ports: AcceptPort, and AcceptPortBulk if that is another port. It
// does nothing if the driver accepts no connections.
func (d *Driver) listen(i *Interface) error {
	if d.config.Accept == AcceptNone {
		return nil
	}
	ports := []int{d.config.AcceptPort}
	if b := d.config.AcceptPortBulk; b != 0 && b != d.config.AcceptPort {
		ports = append(ports, b)
	}
	for _, port := range ports {
		at := netip.AddrPortFrom(i.Address, uint16(port))
		if err := d.share(i, at); err != nil {
			return &lnd.ListenError{Addr: at, Err: err}
		}
	}
	return nil
}

// share adds i to the users of the listener at an address. It creates the listener if the address has none.
func (d *Driver) share(i *Interface, at netip.AddrPort) error {
	d.mu.Lock()
	a := d.listeners[at]
	if a != nil {
		a.users = append(a.users, i)
		i.listening = append(i.listening, at)
	}
	d.mu.Unlock()
	if a != nil {
		return nil
	}
	l, err := d.config.Network.Listen(at, d.config.AcceptBacklog)
	if err != nil {
		return err
	}
	a = &acceptor{d: d, listener: l, closed: make(chan struct{}), users: []*Interface{i}}
	d.mu.Lock()
	d.listeners[at] = a
	i.listening = append(i.listening, at)
	d.group.Add(1)
	d.mu.Unlock()
	go a.accept()
	return nil
}

// close must be called once.
func (a *acceptor) close() {
	_ = a.listener.Close()
	close(a.closed)
}

// accept accepts inbound connections until the listener closes, and starts a goroutine for the handshake of
// each.
func (a *acceptor) accept() {
	defer a.d.group.Done()
	for {
		a.d.halfOpen.AwaitRoom(a.closed)
		s, err := a.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			for _, n := range a.d.halfOpen.Clear(func(n newcomer) bool { return n.via == a }, peering.ErrClosing) {
				_ = n.Conn.stream.Close() // makes the goroutine of its handshake end
			}
			return
		}
		if err != nil {
			a.d.log.Report(boundedlog.Line{
				Level: slog.LevelWarn, Text: "cannot accept a connection of a peer; retrying", Of: boundedlog.About("listener", a.listener.Addr().String()),
			}, slog.Any("cause", err))
			if n := a.d.halfOpen.Evict(); n != nil { // frees a descriptor
				_ = n.Conn.stream.Close()
			}
			if full := (*limit.DescriptorError)(nil); !errors.As(err, &full) { // after a DescriptorError no pause is needed: a connection was accepted and closed
				<-time.After(acceptPause)
			}
			continue
		}
		if a.d.config.Accept == AcceptSecure && s.RemoteAddr().Port() > lastPrivilegedPort {
			a.refused(nil, s, errPort)
			_ = s.Close()
			continue
		}
		// The goroutine of an evicted connection runs until it notices the eviction. Wait while there are too
		// many such goroutines, so that they do not accumulate.
		a.d.handshakes <- struct{}{}
		n, evicted := a.d.halfOpen.Enter(newcomer{stream: s, via: a}, s.RemoteAddr().Addr())
		if evicted != nil {
			_ = evicted.Conn.stream.Close()
		}
		a.d.group.Add(1)
		go a.d.handshake(n)
		// Let the handshake goroutine process this connection's bytes before the next connection arrives,
		// which may evict this one. Otherwise a flood of connections on a busy host would evict well-behaved
		// callers.
		runtime.Gosched()
	}
}

// newcomer is an inbound connection on which the HELLO is not complete, and the acceptor that accepted it.
type newcomer struct {
	stream Stream
	via    *acceptor
}

// handshake reads the request and the HELLO of an inbound connection, and then registers the connection with
// its peer or closes it. Until the HELLO is complete the caller is not trusted, so the time for it is short
// (Config.AcceptTimeout).
func (d *Driver) handshake(n *peering.Newcomer[newcomer]) {
	defer d.group.Done()
	defer func() { <-d.handshakes }()
	i, err := d.readHandshake(n)
	if evicted := d.halfOpen.Leave(n); evicted != nil {
		err = evicted
	}
	if err != nil {
		n.Conn.via.refused(i, n.Conn.stream, err) // before Close: a caller that sees the end may then read the counters
		_ = n.Conn.stream.Close()
	}
}

// readHandshake reads the handshake of an inbound connection. If the handshake is valid and the peer may have
// the connection, it registers the connection with the peer. It returns the interface that the caller has
// requested, if this is known, also together with an error.
func (d *Driver) readHandshake(n *peering.Newcomer[newcomer]) (i *Interface, err error) {
	s := n.Conn.stream
	if err := s.SetReadDeadline(time.Now().Add(d.config.AcceptTimeout)); err != nil {
		return nil, err
	}
	setup := protocol.NewPassiveSetup()
	for {
		got, err := s.Read([][]byte{setup.Want()})
		if err != nil {
			return i, readRefusal(s, err)
		}
		step, err := setup.Filled(got)
		if err != nil {
			d.answer(s, i, err)
			return i, misunderstood(err)
		}
		switch step {
		case protocol.GotRequest:
			i = d.interfaces.Find(setup.Request.NID)
			if i == nil {
				return nil, lnd.Refuse(lnd.RefusedNID, "request for %s: this node has no NI with this NID", setup.Request.NID)
			}
		case protocol.GotHello:
			if err := d.halfOpen.Complete(n); err != nil {
				return i, err
			}
			return i, i.admit(s, setup.Hello, setup.Order)
		}
	}
}

// answer answers a caller whose handshake failed with err. If err is about a version, the protocol requires
// this node to send the versions that it speaks (lnet-wire 5.4, socklnd 5.1). Otherwise answer sends nothing.
func (d *Driver) answer(s Stream, i *Interface, err error) {
	var out []byte
	var request *lnet.VersionError
	var version *protocol.UnknownVersionError
	switch {
	case errors.As(err, &request), errors.Is(err, lnet.ErrProtocolQuery):
		out = lnet.AppendAcceptorRefusal(nil, binary.LittleEndian)
	case errors.As(err, &version) && i != nil:
		h := i.hello(defaultVersion(i.Address), i.Self, protocol.None)
		out, _ = h.Append(nil, binary.LittleEndian) // our own NID always fits
	}
	if out != nil {
		_ = writeAll(s, out, d.config.AcceptTimeout) // an error changes nothing: the caller is refused in any case
	}
}

// admit decides whether to keep an inbound connection whose HELLO h has arrived, answers the HELLO, and
// registers the connection with its peer if it is kept (socklnd 5.3). It returns the reason if the connection
// is refused.
func (i *Interface) admit(s Stream, h protocol.Hello, order binary.ByteOrder) error {
	remote := s.RemoteAddr()
	if remote.Port() > lastPrivilegedPort && !i.trustsSource(&h, remote.Addr()) {
		h.Src = lnet.NIDFromIP(i.Self.Net(), remote.Addr())
		h.SrcPID = lnet.PIDUserFlag | lnet.PID(remote.Port())
	}
	p, err := i.Caller(lnet.ProcessID{NID: h.Src, PID: h.SrcPID}, remote.Addr())
	if err != nil {
		return err
	}
	defer i.Group.Done()
	c := newConn(p, s, h.Type.Invert(), h.Version, order)
	c.inbound = true
	verdict, refuse, why := p.judgeCaller(c, h)

	reply := i.hello(h.Version, h.Src, c.typ)
	reply.DstPID, reply.DstIncarnation = h.DstPID, h.DstIncarnation
	if verdict != protocol.Register {
		reply.Type = protocol.None
	}
	if verdict == protocol.Register || refuse {
		err = i.replyHello(s, reply)
	}
	if verdict == protocol.Register && err == nil {
		err = c.configure()
	}
	switch {
	case err != nil && i.Context.Err() != nil: // the interface is closing and has closed the stream
		err = peering.ErrClosing
	case err != nil:
		err = closedRefusal(s, err)
	}
	if verdict != protocol.Register {
		err = lnd.Refuse(why, "hello from %s: %s", p.ID, refusalText(why))
	}
	return i.admitted(p, c, verdict, err)
}

// judgeCaller decides on a caller's connection c with the HELLO h. If the verdict is Register, it registers c
// with the peer. If it is RefuseStale, it closes the peer's other connections, which belong to an earlier
// incarnation or another version. refuse reports whether to answer c with a HELLO that refuses it. why is the
// reason of a refusal, for counters and logs.
func (p *peer) judgeCaller(c *conn, h protocol.Hello) (v protocol.Verdict, refuse bool, why lnd.Refusal) {
	local, remote := c.local.Addr(), c.remote.Addr()
	p.Lock()
	ended := c.stream.Ended()
	in := protocol.Inbound{
		Hello:       h,
		Self:        p.i.Self,
		Closing:     p.Gone || ended != nil,
		Connecting:  p.connecting && p.ID.NID.IP() == remote,
		SameAddress: local == remote,
		Conns:       p.connsBetween(local, remote, c.typ),
		Limit:       acceptLimit(c.typ),
	}
	v = p.peering.Accept(in)
	var stale []*conn
	switch v {
	case protocol.Register:
		p.reserve(c)
	case protocol.Refuse, protocol.RefuseRace:
		refuse = p.peering.MayRefuse()
	case protocol.RefuseStale:
		stale = p.detach(func(*conn) bool { return true })
		refuse = p.peering.MayRefuse()
	}
	if v.Current() {
		p.i.Observe(p, h.SrcIncarnation, remote == p.ID.NID.IP())
	}
	p.Unlock()
	killAll(stale, peering.ErrStale)
	p.i.Out.Run()
	return v, refuse, refusalFor(v, &in, ended)
}

// trustsSource reports whether to trust the NID and PID in the HELLO of a caller that connects from an
// unprivileged port. A kernel never does; it treats each such connection as a separate process (socklnd 5.2).
// If nodes listen on a privileged port, this node does the same, because any user of a host may connect from
// an unprivileged port. If nodes listen on an unprivileged port, any user could listen there too, so the port
// proves nothing, and the caller's address is enough to identify a node. Without this rule such a node would
// have several identities, to which a router could not forward.
func (i *Interface) trustsSource(h *protocol.Hello, from netip.Addr) bool {
	return i.driver.config.connectPort(protocol.Control) > lastPrivilegedPort &&
		h.Src == lnet.NIDFromIP(i.Self.Net(), from) && h.SrcPID&lnet.PIDUserFlag == 0
}

// replyHello sends the HELLO h, which answers the caller's HELLO.
func (i *Interface) replyHello(s Stream, h protocol.Hello) error {
	out, err := h.Append(nil, binary.LittleEndian)
	if err != nil {
		return err
	}
	return writeAll(s, out, i.driver.config.AcceptTimeout)
}

// admitted completes the admission of a caller's connection c with the verdict v. err is the reason if the
// connection is refused or could not be set up. If it is kept, admitted makes it carry messages. Otherwise it
// undoes what Engine.Caller counted, and closes a registered connection. It returns err.
func (i *Interface) admitted(p *peer, c *conn, v protocol.Verdict, err error) error {
	if v == protocol.Register && err != nil {
		p.fail(c, err) // closes the stream and releases the source
	}
	if v == protocol.Register && err == nil {
		i.Count.Accepts.Add(1)
		i.Log.Debug("accepted", "peer", p.ID.String(), "type", c.typ.String(),
			"version", c.version.String(), "remote", c.remote.String())
		p.establish(c)
	}
	p.accepted()
	if v == protocol.Register {
		return err
	}
	i.CallerLeft(c.remote.Addr())
	return err
}

// acceptLimit returns the maximum number of connections of a type that one peer may open. It is higher than
// the number that any kernel opens, because some kernels retry forever after a refusal.
func acceptLimit(t protocol.ConnType) int {
	if t == protocol.Control {
		return 1
	}
	return maxBulkConns
}
