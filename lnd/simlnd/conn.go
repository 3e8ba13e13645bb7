package simlnd

import (
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Conn is a connection on the fabric, on which tests inject faults. Forward is the direction from the host that
// has opened the connection to the host that has accepted it. All methods are safe for concurrent use.
type Conn struct {
	fabric *Fabric
	serial uint64

	mu    sync.Mutex // guards ends, pipes and death
	ends  [2]stream  // the opening host's end, the accepting host's end
	pipes [2]pipe    // data from the opening host, data from the accepting host
	// death is the timer that makes ends fail which have received nothing for too long.
	death *time.Timer
}

// Direction is one direction of a connection or between two places, or both.
type Direction = network.Direction

// Directions.
const (
	Both     = network.Both
	Forward  = network.Forward  // from the first place to the second; from the opening host to the accepting host
	Backward = network.Backward // the opposite direction
)

// CutMode is what happens to a connection when Conn.Cut takes effect.
type CutMode uint8

const (
	// CutReset resets both ends. Bytes that were delivered before can still be read.
	CutReset CutMode = iota
	// CutEnd makes the reader see an orderly end. Later bytes are discarded. The other direction continues.
	CutEnd
	// CutStall stops the delivery in the direction until Resume.
	CutStall
)

func newConn(f *Fabric, from, to netip.AddrPort) *Conn {
	c := &Conn{fabric: f}
	for i := range c.ends {
		s, p := &c.ends[i], &c.pipes[i]
		s.c = c
		s.out, s.in = p, &c.pipes[1-i]
		s.readable.L, s.writable.L = &c.mu, &c.mu
		p.c = c
		p.from, p.to = s, &c.ends[1-i]
		p.sendBuffer, p.receiveBuffer = f.config.SendBuffer, f.config.ReceiveBuffer
		p.cut = never
	}
	c.ends[0].local, c.ends[0].remote = from, to
	c.ends[1].local, c.ends[1].remote = to, from
	return c
}

// From returns the address of the end that has opened the connection.
func (c *Conn) From() netip.AddrPort { return c.ends[0].local }

// To returns the address of the end that has accepted the connection.
func (c *Conn) To() netip.AddrPort { return c.ends[1].local }

// Serial returns the number of the connection. Connections are numbered in the order in which they were
// established.
func (c *Conn) Serial() uint64 { return c.serial }

// Sent returns the number of bytes that were written so far in the direction d.
func (c *Conn) Sent(d Direction) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := uint64(0)
	c.each(d, func(p *pipe) { n += p.written })
	return n
}

// Reset resets the connection immediately. Both ends can still read the bytes that were delivered before. They
// then get ECONNRESET.
func (c *Conn) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	caller, listener := c.ends[0].fail(errReset), c.ends[1].fail(errReset)
	if caller || listener {
		c.fabric.faults.resets.Add(1)
	}
}

// Cut makes m happen in the direction d as soon as at bytes have been delivered there, counted from the
// beginning of the connection. If more have already been delivered, it happens immediately.
func (c *Conn) Cut(d Direction, at uint64, m CutMode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(d, func(p *pipe) {
		p.cut, p.cutMode = max(at, p.delivered), m
		if p.cut == p.delivered {
			p.cutNow()
		}
	})
}

// Stall stops the delivery of bytes in the direction d until Resume. The connection does not time out because
// of this.
func (c *Conn) Stall(d Direction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(d, func(p *pipe) {
		if !p.stalled {
			p.stalled = true
			c.fabric.faults.stalls.Add(1)
		}
	})
}

// Resume ends Stall and CutStall in the direction d.
func (c *Conn) Resume(d Direction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(d, func(p *pipe) {
		p.stalled = false
		p.advance(c.fabric.net.Now())
	})
}

// Corrupt flips the bits of mask in one byte of the direction d. at is the byte's offset from the beginning of
// the connection. Corrupt has no effect on a byte that was already read.
func (c *Conn) Corrupt(d Direction, at uint64, mask byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(d, func(p *pipe) {
		p.flips = append(p.flips, flip{at, mask})
		p.corrupt()
	})
}

// each calls f with the pipes of the direction d.
func (c *Conn) each(d Direction, f func(*pipe)) {
	if d.Forward() {
		f(&c.pipes[0])
	}
	if d.Backward() {
		f(&c.pipes[1])
	}
}

// block interrupts or restores each direction, after a partition or a device has changed.
func (c *Conn) block(forward, backward bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.fabric.net.Now()
	c.pipes[0].block(forward, now)
	c.pipes[1].block(backward, now)
	c.armDeath(now)
}

// armDeath sets the timer for the end that times out first. An end can time out while a direction is
// interrupted and it waits for acknowledgements, or sends keepalive probes.
func (c *Conn) armDeath(now time.Duration) {
	at := forever
	for i := range c.ends {
		at = min(at, c.ends[i].deathAt())
	}
	switch {
	case at == forever:
		if c.death != nil {
			c.death.Stop()
		}
	case c.death == nil:
		c.death = time.AfterFunc(at-now, c.die)
	default:
		c.death.Reset(at - now)
	}
}

// die is the timer's callback. It fails the ends that have timed out.
func (c *Conn) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.fabric.net.Now()
	for i := range c.ends {
		if s := &c.ends[i]; s.deathAt() <= now && s.fail(syscall.ETIMEDOUT) {
			c.fabric.faults.timeouts.Add(1)
		}
	}
	c.armDeath(now)
}

// deathAt returns when the end will time out if its state does not change, or forever.
func (s *stream) deathAt() time.Duration {
	if s.err != nil || s.closed || !s.out.blocked && !s.in.blocked {
		return forever
	}
	since := s.c.fabric.net.Now()
	if s.out.blocked {
		since = s.out.blockedSince
	}
	if s.in.blocked {
		since = min(since, s.in.blockedSince)
	}
	if s.out.written > s.out.acked {
		return max(since, s.out.unackedSince) + retransmitLimit
	}
	if s.keepalive > 0 {
		return since + s.keepalive
	}
	return forever
}
