package simlnd

import (
	"math"
	"math/rand/v2"
	"time"
)

// pipe is one direction of a connection. Offsets are counted from the beginning of the connection:
//
//	read <= delivered <= written     bytes that the reader has read, that it can
//	                                 read, and that were written
//	acked <= delivered               bytes that the sender knows to be delivered
//
// The buffer contains the bytes from the offset read on. After the reader has closed, nothing is added to it.
// Conn.mu guards the pipe.
type pipe struct {
	c        *Conn
	from, to *stream
	link     Link
	random   rand.PCG

	sendBuffer, receiveBuffer int
	buf                       ring
	read, delivered           uint64
	acked, written            uint64
	segments                  segments
	lastAt, freeAt            time.Duration // latest arrival; time at which the line is free for more bytes

	timer   *time.Timer
	timerAt time.Duration

	blocked      bool // a partition, or a device that is down, interrupts the direction
	blockedSince time.Duration
	unackedSince time.Duration // when the oldest byte that is not acknowledged was written
	stalled      bool          // a test has stopped the delivery
	gone         bool          // the reader has closed, so that arriving bytes are answered by a reset
	void         bool          // all bytes that are written are discarded
	finished     bool          // the end of the stream has been delivered

	cut     uint64 // offset at which cutMode takes effect, or never
	cutMode CutMode
	flips   []flip // bytes that are to be corrupted
}

// flip describes the corruption of one byte.
type flip struct {
	at   uint64
	mask byte
}

const (
	never   = ^uint64(0)                   // an offset
	forever = time.Duration(math.MaxInt64) // a time
)

// write copies bytes of bufs into the pipe until the send buffer is full, and returns their number.
func (p *pipe) write(bufs [][]byte, now time.Duration) int {
	free := p.sendBuffer - int(p.written-p.acked)
	start := p.written
	for _, b := range bufs {
		if free <= 0 {
			break
		}
		b = b[:min(len(b), free)]
		free -= len(b)
		if !p.gone {
			p.buf.append(b)
		}
		p.written += uint64(len(b))
	}
	n := int(p.written - start)
	if n == 0 {
		return 0
	}
	if p.void {
		p.written = start
		if (p.to.closed || p.to.err != nil) && !p.blocked && !p.stalled {
			p.answerReset(now) // the reader has closed its end
		}
		return n
	}
	if start == p.acked {
		p.unackedSince = now
	}
	if len(p.flips) > 0 && !p.gone {
		p.corrupt()
	}
	p.schedule(segmentData, n, now)
	p.advance(now)
	if p.blocked || p.opposite().blocked {
		p.c.armDeath(now)
	}
	return n
}

// corrupt corrupts the bytes of flips that are in the buffer.
func (p *pipe) corrupt() {
	kept := p.flips[:0]
	for _, f := range p.flips {
		if f.at < p.read || f.at >= p.written {
			kept = append(kept, f)
			continue
		}
		p.buf.flip(int(f.at-p.read), f.mask)
		p.c.fabric.faults.corruptions.Add(1)
	}
	p.flips = kept
}

// schedule puts a segment in transit: the n bytes written last, an end, or a reset.
func (p *pipe) schedule(kind segmentKind, n int, now time.Duration) {
	at := now
	if p.link != (Link{}) {
		at = p.depart(n, now) + p.delay()
	}
	p.lastAt = max(p.lastAt, at)
	p.segments.push(segment{kind: kind, end: p.written, at: p.lastAt})
}

// depart returns when the last of n bytes leaves the sender.
func (p *pipe) depart(n int, now time.Duration) time.Duration {
	if p.link.Bandwidth == 0 {
		return now
	}
	p.freeAt = max(p.freeAt, now) + time.Duration(int64(n)*int64(time.Second)/p.link.Bandwidth)
	return p.freeAt
}

// delay returns a random one-way delay.
func (p *pipe) delay() time.Duration {
	d := p.link.Latency
	if p.link.Jitter > 0 {
		d += time.Duration(p.random.Uint64() % uint64(p.link.Jitter))
	}
	if p.link.Loss > 0 && p.uniform() < p.link.Loss {
		p.c.fabric.faults.losses.Add(1)
		d += 2*p.link.Latency + retransmitFirst
	}
	return d
}

// uniform returns a random number from [0, 1).
func (p *pipe) uniform() float64 { return float64(p.random.Uint64()>>11) / (1 << 53) }

// opposite returns the other direction of the connection.
func (p *pipe) opposite() *pipe {
	if p == &p.c.pipes[0] {
		return &p.c.pipes[1]
	}
	return &p.c.pipes[0]
}

// advance delivers the segments that have arrived, as far as the reader has room, and sets the timer for the
// next one in transit.
func (p *pipe) advance(now time.Duration) {
	before := p.delivered
	for p.segments.n() > 0 && !p.blocked && !p.stalled {
		s := p.segments.front()
		if s.at > now {
			p.wakeAt(s.at, now)
			break
		}
		if !p.deliver(s, now) {
			p.overtake(now)
			break
		}
		p.segments.pop()
	}
	if p.delivered > before {
		p.to.readable.Broadcast()
	}
	p.acknowledge(now)
}

// deliver delivers as much of the segment s as the reader has room for. It returns true if that was all of it;
// the caller then removes s. If it returns false, it may have removed all segments, because the stream was
// reset.
func (p *pipe) deliver(s *segment, now time.Duration) bool {
	switch s.kind {
	case segmentEnd:
		p.finish()
		return true
	case segmentReset:
		p.c.fabric.faults.resets.Add(1)
		p.to.fail(errReset)
		return false
	}
	if p.gone {
		// The reader has closed. TCP answers with a reset, which may arrive immediately and remove all segments.
		p.delivered = s.end
		p.answerReset(now)
		return p.segments.n() > 0
	}
	room := max(p.receiveBuffer-p.unread(), 0)
	end := min(s.end, p.delivered+uint64(room))
	if p.cut <= end {
		p.delivered = p.cut
		p.cutNow()
		return false
	}
	p.delivered = end
	return end == s.end
}

// overtake delivers a reset that is queued after bytes for which the reader has no room. In TCP a reset does
// not wait for the reader.
func (p *pipe) overtake(now time.Duration) {
	if p.gone || p.stalled || !p.segments.ends(segmentReset) || p.segments.front().kind != segmentData {
		return
	}
	if s := p.segments.last(); s.at > now {
		p.wakeAt(s.at, now)
	} else {
		p.deliver(s, now)
	}
}

// cutNow makes cutMode take effect.
func (p *pipe) cutNow() {
	p.cut = never
	p.c.fabric.faults.cuts.Add(1)
	switch p.cutMode {
	case CutReset:
		p.from.fail(errReset)
		p.to.fail(errReset)
	case CutEnd:
		p.c.fabric.faults.halfCloses.Add(1)
		p.finish()
		p.abandon()
		p.void = true
	case CutStall:
		p.stalled = true
	}
}

// abandon discards the bytes in transit. Bytes that arrive later are not stored for the reader.
func (p *pipe) abandon() {
	p.drop()
	p.gone = true
}

// finish makes the reader see the end of the stream.
func (p *pipe) finish() {
	p.finished = true
	p.to.readable.Broadcast()
}

// answerReset sends a reset to the writer of p, because the reader has closed.
func (p *pipe) answerReset(now time.Duration) {
	back := p.opposite()
	if back.to.err != nil || back.to.closed || back.segments.ends(segmentReset) {
		return
	}
	back.schedule(segmentReset, 0, now)
	back.advance(now)
}

// acknowledge makes the sender know the delivered bytes, unless the opposite direction, on which
// acknowledgements travel, is interrupted.
func (p *pipe) acknowledge(now time.Duration) {
	if p.acked == p.delivered || p.opposite().blocked {
		return
	}
	p.acked = p.delivered
	p.unackedSince = now
	if p.writable() {
		p.from.writable.Broadcast()
	}
}

// writable reports whether at least a quarter of the send buffer is free. It is not worth waking a writer for
// less.
func (p *pipe) writable() bool {
	return int(p.written-p.acked)*4 <= p.sendBuffer*3
}

// unread returns the number of bytes that the reader can read without waiting.
func (p *pipe) unread() int {
	if p.gone {
		return p.buf.n
	}
	return int(p.delivered - p.read)
}

// take moves delivered bytes to bufs and returns their number.
func (p *pipe) take(bufs [][]byte, now time.Duration) int {
	left, n := p.unread(), 0
	for _, b := range bufs {
		b = b[:min(len(b), left)]
		p.buf.take(b)
		left -= len(b)
		n += len(b)
	}
	p.read += uint64(n)
	if p.segments.n() > 0 {
		p.advance(now) // the reader has room for more bytes
	}
	return n
}

// wakeAt sets the timer to the time at.
func (p *pipe) wakeAt(at, now time.Duration) {
	if p.timerAt == at {
		return
	}
	p.timerAt = at
	if p.timer == nil {
		p.timer = time.AfterFunc(at-now, p.wake)
		return
	}
	p.timer.Reset(at - now)
}

// wake is the timer's callback.
func (p *pipe) wake() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.timerAt = 0
	p.advance(p.c.fabric.net.Now())
}

// block interrupts or restores the direction. When it is restored, segments in transit arrive as if they were
// retransmitted.
func (p *pipe) block(blocked bool, now time.Duration) {
	if p.blocked == blocked {
		return
	}
	p.blocked = blocked
	if blocked {
		p.blockedSince = now
		return
	}
	if p.segments.n() > 0 {
		p.lastAt = max(p.lastAt, p.segments.delay(nextTry(p.blockedSince, now, retransmitFirst, retransmitMax)))
	}
	p.advance(now)
	p.opposite().acknowledge(now)
}

// drop discards the bytes and segments in transit.
func (p *pipe) drop() {
	p.segments.clear()
	p.buf.trim(p.buf.n - p.unread())
	p.written, p.acked = p.delivered, p.delivered
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timerAt = 0
}
