package simlnd

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// stream is one end of a connection. Its state is guarded by Conn.mu.
type stream struct {
	c             *Conn
	in, out       *pipe
	local, remote netip.AddrPort

	readable, writable sync.Cond
	closed             bool
	err                error // why the stream has failed
	keepalive          time.Duration

	readBound, writeBound bound
}

// bound is a deadline for reads or writes.
type bound struct {
	at    time.Duration // 0: there is no deadline
	timer *time.Timer
}

var _ socklnd.Stream = (*stream)(nil)

const errReset = syscall.ECONNRESET

func (s *stream) LocalAddr() netip.AddrPort  { return s.local }
func (s *stream) RemoteAddr() netip.AddrPort { return s.remote }

// Read implements socklnd.Stream.
func (s *stream) Read(bufs [][]byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.readBound.passed(s.c.fabric):
			return 0, os.ErrDeadlineExceeded
		case s.in.unread() > 0:
			return s.in.take(bufs, s.c.fabric.net.Now()), nil
		case s.in.finished:
			return 0, io.EOF
		case s.err != nil:
			return 0, s.err
		}
		s.readable.Wait()
	}
}

// Ended implements socklnd.Stream.
func (s *stream) Ended() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case s.in.finished:
		return io.EOF
	}
	return s.err
}

// TryWrite implements socklnd.Stream.
func (s *stream) TryWrite(bufs [][]byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := s.unusable(); err != nil {
		return 0, err
	}
	return s.out.write(bufs, s.c.fabric.net.Now()), nil
}

// AwaitWritable implements socklnd.Stream.
func (s *stream) AwaitWritable() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for {
		if err := s.unusable(); err != nil {
			return err
		}
		if s.out.writable() {
			return nil
		}
		s.writable.Wait()
	}
}

// unusable returns an error if nothing can be written.
func (s *stream) unusable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.err != nil:
		return s.err
	case s.writeBound.passed(s.c.fabric):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// SetReadDeadline implements socklnd.Stream.
func (s *stream) SetReadDeadline(t time.Time) error {
	return s.bound(&s.readBound, t, s.readable.Broadcast)
}

// SetWriteDeadline implements socklnd.Stream.
func (s *stream) SetWriteDeadline(t time.Time) error {
	return s.bound(&s.writeBound, t, s.writable.Broadcast)
}

// bound sets the deadline b to t. wake is called when it passes.
func (s *stream) bound(b *bound, t time.Time, wake func()) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	b.stop()
	b.at = 0
	if t.IsZero() {
		return nil
	}
	left := time.Until(t)
	b.at = max(s.c.fabric.net.Now()+left, 1)
	switch {
	case left <= 0:
		wake()
	case b.timer == nil:
		b.timer = time.AfterFunc(left, func() {
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			wake()
		})
	default:
		b.timer.Reset(left)
	}
	return nil
}

// passed reports whether the deadline has passed.
func (b *bound) passed(f *Fabric) bool { return b.at > 0 && f.net.Now() >= b.at }

func (b *bound) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// wake wakes all blocked calls.
func (s *stream) wake() {
	s.readable.Broadcast()
	s.writable.Broadcast()
}

// Configure implements socklnd.Stream. It applies the buffer sizes and the keepalive. The other options have no
// effect.
func (s *stream) Configure(o socklnd.StreamOptions) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := s.unusable(); err != nil {
		return err
	}
	if o.SendBuffer > 0 {
		s.out.sendBuffer = o.SendBuffer
	}
	if o.ReceiveBuffer > 0 {
		s.in.receiveBuffer = o.ReceiveBuffer
	}
	s.keepalive = 0
	if o.KeepaliveIdle > 0 && o.KeepaliveInterval > 0 && o.KeepaliveCount > 0 {
		s.keepalive = o.KeepaliveIdle + time.Duration(o.KeepaliveCount)*o.KeepaliveInterval
	}
	if s.in.blocked || s.out.blocked {
		s.c.armDeath(s.c.fabric.net.Now())
	}
	return nil
}

// Unacked implements socklnd.Stream.
func (s *stream) Unacked() int {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return int(s.out.written - s.out.acked)
}

// Trying implements socklnd.Stream.
func (s *stream) Trying() (trying bool, silent time.Duration) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	now, since := s.c.fabric.net.Now(), s.out.unackedSince
	if s.out.blocked {
		since = max(since, s.out.blockedSince)
	}
	if s.in.blocked {
		silent = now - s.in.blockedSince
		since = max(since, s.in.blockedSince)
	}
	trying = (s.out.blocked || s.in.blocked) && s.out.written > s.out.acked && now-since >= retransmitFirst
	return trying, silent
}

// Close implements socklnd.Stream. Bytes that were written before are still delivered. But if this end has not
// read all delivered bytes, the peer gets a reset instead.
func (s *stream) Close() error {
	s.c.mu.Lock()
	if s.closed {
		s.c.mu.Unlock()
		return net.ErrClosed
	}
	s.closed = true
	s.readBound.stop()
	s.writeBound.stop()
	s.wake()
	if s.err == nil {
		s.hangUp(s.c.fabric.net.Now())
	}
	over := s.c.ends[0].closed && s.c.ends[1].closed
	if over {
		s.c.release()
	}
	s.c.mu.Unlock()
	s.c.fabric.forget(s, over)
	return nil
}

// hangUp sends the end of the stream, or a reset, to the peer.
func (s *stream) hangUp(now time.Duration) {
	unread := s.in.unread() > 0
	s.in.gone = true // bytes that arrive later are answered by a reset
	if unread {
		s.out.drop()
		s.out.schedule(segmentReset, 0, now)
	} else {
		s.out.schedule(segmentEnd, 0, now)
	}
	s.out.advance(now)
	s.in.advance(now)
}

// fail makes this end of the stream fail with err. It returns false if the end had already failed or was
// closed. Delivered bytes can still be read; later reads return err. The peer is not notified; it notices the
// failure when it sends.
func (s *stream) fail(err error) bool {
	if s.err != nil || s.closed {
		return false
	}
	s.err = err
	s.out.drop()
	s.in.abandon()
	s.wake()
	return true
}

// release frees the buffers and timers of a connection when both ends are closed. Conn.mu is held.
func (c *Conn) release() {
	for i := range c.pipes {
		p := &c.pipes[i]
		p.abandon()
		p.buf = ring{}
	}
	if c.death != nil {
		c.death.Stop()
	}
}
