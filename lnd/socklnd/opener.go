package socklnd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Privileged source ports, tried from the top (lnet-wire 5.3).
const (
	firstSourcePort = 1023
	lastSourcePort  = 512
)

// kernelPort is the port that kernel nodes listen on.
const kernelPort = 988

// open is the opener, a goroutine that opens the peer's missing connections one after the other (socklnd 2.3,
// 7). It ends when all of them exist, when an attempt fails permanently, or when ctx ends.
func (p *peer) open(ctx context.Context) {
	defer p.i.Group.Done()
	var until time.Time // time limit of the attempts; zero before the first attempt
	for {
		t, turn := p.awaitTurn(ctx)
		if turn == nil {
			return
		}
		var outcome protocol.Outcome
		err := peering.ErrWaited
		if now := time.Now(); until.IsZero() || !now.After(until) {
			if until.IsZero() {
				until = now.Add(p.i.Timeout())
			}
			outcome, err = p.attempt(ctx, t)
		}
		p.i.calls.release(turn)
		if err == nil {
			err = p.attempted(t, outcome)
		}
		if err == nil && outcome == protocol.Race {
			// The peer is connecting to us, so the time limit starts again. Waiting messages have their own
			// time limit (expire).
			until = time.Now().Add(p.i.Timeout())
		}
		if err != nil {
			p.openFailed(ctx, err)
			return
		}
	}
}

// awaitTurn waits until the peer's back-off pause is over, and until the interface's limits permit another
// attempt to connect. It returns the type of the connection to open, and the attempt's turn, which the caller
// must release. If the turn is nil, no attempt is to be made and the opener must end.
func (p *peer) awaitTurn(ctx context.Context) (protocol.ConnType, *turn) {
	for {
		_, wait, more := p.next(false)
		if !more {
			return 0, nil
		}
		if wait > 0 && !sleep(ctx, wait) {
			p.openCanceled()
			return 0, nil
		}
		turn := p.i.calls.acquire(ctx, p.i.CalleeFor(p))
		if turn == nil {
			p.openCanceled()
			return 0, nil
		}
		t, wait, more := p.next(true)
		if more && wait == 0 {
			return t, turn
		}
		p.i.calls.release(turn)
		if !more {
			return 0, nil
		}
	}
}

// next returns what the opener does next. If more is false, it ends. If wait is not 0, it pauses for wait.
// Otherwise it opens a connection of type t. placed reports whether the opener has a turn from calls.acquire;
// if not, it must first acquire one.
func (p *peer) next(placed bool) (t protocol.ConnType, wait time.Duration, more bool) {
	p.Lock()
	defer p.Unlock()
	t, missing := p.wanted.Next()
	if p.Gone || !missing {
		p.stopOpening()
		return 0, 0, false
	}
	now := time.Now()
	if p.Accepting > 0 && p.ID.NID.IP() != p.i.Address {
		// The peer is connecting to us. Its connection probably makes this attempt unnecessary.
		p.Backoff.Pause(now)
	}
	if !p.Backoff.Ready(now) {
		p.connecting = false
		return t, p.Backoff.Next().Sub(now), true
	}
	p.connecting = placed
	return t, 0, true
}

// stopOpening records that the opener has ended or is about to end. p is locked.
func (p *peer) stopOpening() {
	p.opening, p.connecting = false, false
	p.stopOpener()
	p.publish()
}

// attempted processes the outcome o of an attempt to open a connection of type t. It returns an error if the
// opener must give up, because the peer has refused too many attempts in a row.
func (p *peer) attempted(t protocol.ConnType, o protocol.Outcome) error {
	p.Lock()
	defer p.Unlock()
	switch o {
	case protocol.Connected:
		p.Backoff.Succeed()
		return nil
	case protocol.Duplicate:
		p.wanted.Skip(t)
		p.Backoff.Succeed()
		return nil
	}
	if p.Backoff.Refused() {
		if p.wanted.Settle() {
			// The peer has connections; use those. Later refusals are counted from 0.
			p.Backoff.Succeed()
			return nil
		}
		if o != protocol.Race || p.Waiting.Len() == 0 {
			return fmt.Errorf("%w: %s", errTurnedAway, o)
		}
		// The peer is connecting to us. The messages wait for its connection.
	}
	if o == protocol.Race {
		p.Backoff.Pause(time.Now())
	}
	return nil
}

// openCanceled ends an opener whose context has ended, because of Disconnect, because the interface is
// closing, or because no message waits any more. If messages were sent after Disconnect, it starts another
// opener.
func (p *peer) openCanceled() {
	p.Lock()
	p.stopOpening()
	cause := peering.ErrClosing
	if !p.Gone && !p.i.Closed() {
		cause = peering.ErrDisconnect
		if p.Waiting.Len() > 0 {
			p.call(time.Now())
		}
	}
	p.settle(p.i.Error("connect", p.ID.NID, connectStatus(cause), cause))
	p.Unlock()
	p.i.Out.Run()
	p.i.Forget(p)
}

// openFailed ends an opener that has given up because of err. Waiting messages fail, unless the peer is
// connecting to us. If ctx has ended, openFailed does the same as openCanceled instead.
func (p *peer) openFailed(ctx context.Context, err error) {
	now, jitter := time.Now(), p.i.driver.jitter()
	err = timeoutErrno(err)
	p.Lock()
	if ctx.Err() != nil { // Disconnect cancels with p locked, so messages that wait now may be newer than the failure
		p.Unlock()
		p.openCanceled()
		return
	}
	p.Record.Troubled = true
	p.Backoff.Fail(now, fmt.Errorf("the next attempt to connect is not due yet after the last one failed: %w", err), jitter)
	p.stopOpening()
	failed := p.i.Error("connect", p.ID.NID, connectStatus(err), err)
	if len(p.conns) == 0 {
		p.Loss = failed
	}
	p.settle(failed)
	p.Unlock()
	p.i.Count.CallFailures.Failed(p.i.Log, p.ID.NID, err)
	p.i.Out.Run()
}

// attempt opens one connection of type t: it connects a stream, sends the request and the HELLO, reads the
// peer's HELLO, and registers the connection if it may be kept (socklnd 3, 5.4).
func (p *peer) attempt(ctx context.Context, t protocol.ConnType) (protocol.Outcome, error) {
	i := p.i
	cfg := &i.driver.config
	timeout := i.Timeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := netip.AddrPortFrom(p.ID.NID.IP(), cfg.connectPort(t))
	s, privileged, err := i.dial(ctx, to)
	if err != nil {
		return 0, err
	}
	if !privileged {
		p.useControlAlone()
	}
	// A stream has a deadline but no context, so close it when ctx ends.
	release := closeWith(ctx, s)
	defer release()

	p.Lock()
	version := p.peering.Version
	p.Unlock()
	if version == 0 {
		version = defaultVersion(to.Addr())
	}
	sent := i.hello(version, p.ID.NID, t)
	reply, order, err := exchange(s, sent, cfg.AcceptTimeout, timeout)
	if err != nil {
		_ = s.Close()
		if end := ctx.Err(); end != nil {
			err = fmt.Errorf("exchange hellos: %w", end) // the end of ctx closed the stream
		}
		return 0, err
	}
	if release() {
		return 0, ctx.Err()
	}
	return p.connected(ctx, s, sent, reply, order)
}

// closeWith closes c when ctx ends, until release is called. release waits for a close in progress, and
// reports whether c was closed.
func closeWith(ctx context.Context, c io.Closer) (release func() (closed bool)) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = c.Close()
	})
	return sync.OnceValue(func() bool {
		if stop() {
			return false
		}
		<-done
		return true
	})
}

// useControlAlone makes the opener open no bulk connections, because this node connects from an unprivileged
// port. For the peer, each such connection is a separate process, to which it answers only on that
// connection. So nothing would ever be sent on the connections that are BULK_IN for us.
func (p *peer) useControlAlone() {
	p.Lock()
	defer p.Unlock()
	p.wanted.Skip(protocol.BulkIn)
	p.wanted.Skip(protocol.BulkOut)
}

// defaultVersion returns the protocol version that is used first with a peer: V4 over IPv6, V3 over IPv4
// (socklnd 4.5).
func defaultVersion(remote netip.Addr) protocol.Version {
	if remote.Is4() {
		return protocol.V3
	}
	return protocol.V4
}

// connectPort returns the peer's port for a connection of type t.
func (c *Config) connectPort(t protocol.ConnType) uint16 {
	port := c.ConnectPort
	if port == 0 {
		port = c.AcceptPort
	}
	if t == protocol.Control {
		return uint16(port)
	}
	switch {
	case c.ConnectPortBulk != 0:
		return uint16(c.ConnectPortBulk)
	case c.ConnectPort == 0 && c.AcceptPortBulk != 0:
		return uint16(c.AcceptPortBulk)
	}
	return uint16(port)
}

// exchange sends the request and the HELLO sent, and reads the peer's HELLO. write limits the time for
// sending, read the time until the peer's HELLO is complete. It returns the peer's HELLO and its byte order.
func exchange(s Stream, sent protocol.Hello, write, read time.Duration) (protocol.Hello, binary.ByteOrder, error) {
	var none protocol.Hello
	out := lnet.AcceptorRequest{NID: sent.Dst}.Append(nil, binary.LittleEndian)
	out, err := sent.Append(out, binary.LittleEndian)
	if err != nil {
		return none, nil, err
	}
	if err := writeAll(s, out, write); err != nil {
		return none, nil, fmt.Errorf("send hello: %w", err)
	}
	if err := s.SetReadDeadline(time.Now().Add(read)); err != nil {
		return none, nil, err
	}
	setup := protocol.NewActiveSetup()
	for {
		n, err := s.Read([][]byte{setup.Want()})
		if err != nil {
			return none, nil, fmt.Errorf("wait for hello: %w", timeoutErrno(err))
		}
		step, err := setup.Filled(n)
		if err != nil {
			return none, nil, fmt.Errorf("%w: %w", lnd.ErrProtocol, misunderstood(err))
		}
		if step == protocol.GotHello {
			return setup.Hello, setup.Order, nil
		}
	}
}

// writeAll writes all of b, which must not take longer than within.
func writeAll(s Stream, b []byte, within time.Duration) error {
	if err := s.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	rest := [][]byte{b}
	for {
		n, err := s.TryWrite(rest)
		if err != nil {
			return err
		}
		if rest = skip(rest, n); len(rest) == 0 {
			return nil
		}
		if n == 0 {
			if err := s.AwaitWritable(); err != nil {
				return timeoutErrno(err)
			}
		}
	}
}

// connected decides whether to keep a connection that this node has opened, after the HELLOs sent and reply
// were exchanged. If so, it registers the connection and makes it carry messages. Otherwise it closes s.
func (p *peer) connected(ctx context.Context, s Stream, sent, reply protocol.Hello, order binary.ByteOrder) (protocol.Outcome, error) {
	c := newConn(p, s, sent.Type, reply.Version, order)
	p.Lock()
	var gone error
	switch {
	case p.Gone || ctx.Err() != nil:
		gone = peering.ErrClosing
	case reply.Type != protocol.None && s.Ended() != nil:
		// If the peer has accepted the connection and ended it since, the HELLO may be of an old incarnation,
		// which must not count as a restart (see protocol.Inbound). After a HELLO of type NONE, the peer ends
		// the connection in any case.
		gone = errEOF
	}
	if gone != nil {
		p.Unlock()
		_ = s.Close()
		return 0, gone
	}
	outcome, err := p.peering.Connect(protocol.Outbound{
		Want:        p.ID,
		Sent:        sent,
		Reply:       reply,
		SameAddress: c.local.Addr() == c.remote.Addr(),
		Conns:       p.connsBetween(c.local.Addr(), c.remote.Addr(), c.typ),
		// The peer has accepted the connection. If we closed it because there are enough, the peer would
		// close the whole set (socklnd 15.1). So the limit is the largest possible number.
		Limit: maxBulkConns,
	})
	var stale []*conn
	if err == nil {
		switch outcome {
		case protocol.Connected:
			p.reserve(c)
		case protocol.Stale:
			stale = p.detach(func(*conn) bool { return true })
		}
		p.i.Observe(p, reply.SrcIncarnation, c.remote.Addr() == p.ID.NID.IP())
	}
	p.Unlock()
	killAll(stale, peering.ErrStale)
	p.i.Out.Run()
	if err != nil || outcome != protocol.Connected {
		_ = s.Close()
		if err != nil {
			err = fmt.Errorf("%w: %w", lnd.ErrProtocol, err)
		}
		return outcome, err
	}
	if err := c.configure(); err != nil {
		p.fail(c, err)
		return 0, err
	}
	p.i.Count.Connects.Add(1)
	p.i.Log.Debug("connected", "peer", p.ID.String(), "type", c.typ.String(),
		"version", c.version.String(), "local", c.local.String(), "remote", c.remote.String())
	p.establish(c)
	return outcome, nil
}

// dial connects from the interface's address, and from a privileged port if the configuration and the
// process's permissions allow it. privileged reports whether it does. A kernel ignores the identity in the
// HELLO of a connection from any other port (socklnd 5.2).
func (i *Interface) dial(ctx context.Context, to netip.AddrPort) (s Stream, privileged bool, err error) {
	mode := i.driver.config.SourcePorts
	if mode != SourceAny {
		s, err := i.dialPrivileged(ctx, to)
		if err == nil || mode == SourcePrivileged || !errors.Is(err, syscall.EACCES) {
			return s, true, err
		}
	}
	if to.Addr().Is6() && to.Port() == kernelPort {
		// Such a connection crashes a kernel with accept=all.
		return nil, false, fmt.Errorf("connect to %s: a privileged source port is required: %w", to, syscall.EACCES)
	}
	s, err = i.driver.config.Network.Dial(ctx, netip.AddrPortFrom(i.Address, 0), to)
	return s, false, err
}

// dialPrivileged connects from the highest privileged port that is free.
func (i *Interface) dialPrivileged(ctx context.Context, to netip.AddrPort) (Stream, error) {
	for port := uint16(firstSourcePort); port >= lastSourcePort; port-- {
		s, err := i.driver.config.Network.Dial(ctx, netip.AddrPortFrom(i.Address, port), to)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return s, err
		}
	}
	return nil, fmt.Errorf("no free source port from %d to %d: %w", firstSourcePort, lastSourcePort, syscall.EADDRINUSE)
}

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
