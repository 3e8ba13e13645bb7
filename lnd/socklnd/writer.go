package socklnd

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

// Writing. If no goroutine has the writer's role of a connection, the goroutine that queues a message acquires
// the role and writes at once. It keeps the role while it completes the written messages. Messages that
// completions send are queued and join its next write, so that there is no recursion. If the stream is full,
// the goroutine passes the role to a drainer, which may block.

const (
	// Limits of a batch: the messages that one write call writes.
	maxBatch      = 64
	maxBatchBytes = 256 << 10
	maxPieces     = 512 // below the system limit of 1024
	// maxRounds is the number of batches that a sender writes before it leaves the rest to a drainer.
	maxRounds = 32
	// maxAcks is the maximum number of NOOPs that may be queued on a connection. A correct peer never causes so
	// many: it has at most as many zero-copy requests outstanding as it has credits, and one NOOP can
	// acknowledge several.
	maxAcks = 4096
)

// writer is the batch that is being written. Only the goroutine that has the writer's role uses it.
type writer struct {
	n     int // messages in batch
	first int // first message that is not complete
	wrote int // bytes of the batch that have been written
	total int // bytes of the batch
	noops int // bytes of NOOPs before the messages
	// cookie is the cookie that the frame of the batch's first message acknowledges. 0 means none.
	cookie uint64

	heads  []byte   // framing and LNet headers
	pieces [][]byte // the whole batch
	rest   [][]byte // unwritten part of pieces
	batch  [maxBatch]written
	summed [][]byte // the payload whose checksum is being computed
}

// written is a message that is being written.
type written struct {
	m   *lnd.Tx
	end int // offset in the batch at which the message ends
}

// enqueue queues m, and writes it unless the write is left to another goroutine (writeUnlock). It returns false
// if the connection is dead. In that case it has not used m.
func (c *conn) enqueue(m *lnd.Tx) bool {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return false
	}
	c.queue(m)
	c.writeUnlock(m.More)
	return true
}

// queue adds m to the queue without writing. It is called with mu held, or before other goroutines use the
// connection.
func (c *conn) queue(m *lnd.Tx) {
	c.queued.push(m)
	c.queuedBytes.Add(int64(m.Payload.Length + c.version.Overhead()))
}

// acknowledge sends the acknowledgement of a zero-copy request with this cookie. If too many acknowledgements
// are queued, it returns an error, and the connection must end. Otherwise a peer that sends requests but does
// not read the acknowledgements could make the queue grow without limit.
func (c *conn) acknowledge(cookie uint64) error {
	c.mu.Lock()
	switch {
	case c.dead:
		c.mu.Unlock()
		return nil
	case c.acks.Len() >= maxAcks:
		c.mu.Unlock()
		return errManyAcks
	}
	c.acks.Add(cookie)
	c.writeUnlock(false)
	return nil
}

// writeUnlock releases mu and writes the queue, unless another goroutine will write it: one that already has
// the writer's role, a reader at the end of its batch of arrivals, or the flusher. more means that the sender
// has announced more messages; the flusher then writes them together. A long queue waits for neither reader nor
// flusher.
func (c *conn) writeUnlock(more bool) {
	p := c.peer
	if c.writing {
		c.mu.Unlock()
		return
	}
	if p.corks.hold(c) {
		c.mu.Unlock()
		return
	}
	if more && c.queued.len() < maxCorked {
		if !c.awaited {
			c.awaited = true
			p.i.Group.Add(1)
			go c.flusher()
		}
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	c.flush()
}

// flushSoon is the flusher, a goroutine that writes the queue when senders have announced more messages
// (lnd.Tx.More). A sender has usually queued these before the flusher runs.
func (c *conn) flushSoon() {
	defer c.peer.i.Group.Done()
	c.mu.Lock()
	c.awaited = false
	c.mu.Unlock()
	c.flushQueued()
}

// flushQueued writes the queue, unless another goroutine has the writer's role or the queue is empty.
func (c *conn) flushQueued() {
	c.mu.Lock()
	if c.writing || c.dead || c.queued.len() == 0 && c.acks.Len() == 0 {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	c.flush()
}

// flush writes without blocking until the queue is empty. If the stream is full, or after maxRounds batches, it
// leaves the rest to a drainer. The caller has the writer's role, which flush releases or passes on.
func (c *conn) flush() {
	for range maxRounds {
		if !c.fill() {
			return
		}
		if !c.push() {
			break
		}
	}
	c.startDrainer()
}

// startDrainer passes the writer's role to a drainer. If the connection is dead, it fails the batch and
// releases the role instead.
func (c *conn) startDrainer() {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		c.failBatch(c.closeCause())
		c.releaseWriter()
		return
	}
	// Group counts the writer's role only on dead connections, so the drainer has to be counted here.
	c.peer.i.Group.Add(1)
	c.mu.Unlock()
	go c.drainer()
}

// drain is the drainer, a goroutine that has the writer's role and writes until the queue is empty. It blocks
// while the stream is full.
func (c *conn) drain() {
	defer c.peer.i.Group.Done()
	for {
		for !c.push() {
			err := c.stream.AwaitWritable()
			if errors.Is(err, os.ErrDeadlineExceeded) { // set by recall
				err = c.executeRecall()
			}
			if err != nil {
				c.writeFailed(err)
				break
			}
		}
		if !c.fill() {
			return
		}
	}
}

// fill takes the next batch from the queue and encodes it. If the queue is empty or the connection is dead, it
// releases the writer's role and returns false.
func (c *conn) fill() bool {
	w := &c.w
	w.n, w.first, w.wrote, w.total, w.noops = 0, 0, 0, 0, 0
	w.heads = w.heads[:0]
	clear(w.pieces)
	w.pieces = w.pieces[:0]

	c.mu.Lock()
	if c.dead || c.queued.len() == 0 && c.acks.Len() == 0 {
		c.releaseWriterLocked()
		return false
	}
	piggyback := c.typ != protocol.BulkIn || c.version == protocol.V2
	cookie := uint64(0)
	if piggyback && c.queued.len() > 0 {
		cookie, _ = c.acks.TakePiggyback()
	}
	for c.acks.Len() > 0 && w.noops < maxBatch*protocol.FrameSize {
		f, _ := c.acks.Next()
		w.heads = f.Append(w.heads, binary.LittleEndian)
		c.checksumNoop(w.heads[len(w.heads)-protocol.FrameSize:])
		w.noops += protocol.FrameSize
	}
	pieces := 0
	for c.queued.len() > 0 && w.n < maxBatch && w.total < maxBatchBytes {
		m := c.queued.peek()
		if pieces += 1 + len(m.Payload.Segments); pieces > maxPieces && w.n > 0 {
			break
		}
		w.batch[w.n].m = c.queued.pop()
		w.n++
		w.total += m.Payload.Length
	}
	c.mu.Unlock()
	c.encode(cookie)
	return true
}

// encode builds the batch: heads contains the NOOPs and the headers of all messages, and pieces refers to parts
// of heads and to payloads in the order of sending. The frame of the first message acknowledges cookie, unless
// it is 0. A message that cannot be encoded fails and is left out.
func (c *conn) encode(cookie uint64) {
	w, taken := &c.w, cookie
	if need := w.noops + w.n*c.version.Overhead(); cap(w.heads) < need {
		// Pieces point into heads, so heads must not be reallocated.
		w.heads = append(make([]byte, 0, max(need, 4*c.version.Overhead())), w.heads...)
	}
	start := 0 // offset in heads of the bytes that are not in a piece yet
	total := w.noops
	kept := 0
	for k := range w.n {
		m := w.batch[k].m
		head := len(w.heads)
		if err := c.appendHead(m, cookie); err != nil {
			w.heads = w.heads[:head]
			c.queuedBytes.Add(-int64(m.Payload.Length + c.version.Overhead()))
			c.peer.i.Out.Add(peering.Failed(m, c.peer.i.Error("send", c.peer.ID.NID, lnd.StatusLocalError, err)))
			continue
		}
		cookie = 0
		total += len(w.heads) - head + m.Payload.Length
		w.batch[kept] = written{m, total}
		kept++
		if m.Payload.Length > 0 {
			w.pieces = append(w.pieces, w.heads[start:len(w.heads):len(w.heads)])
			w.pieces = m.Payload.AppendBuffers(w.pieces)
			start = len(w.heads)
		}
	}
	clear(w.batch[kept:w.n])
	w.n, w.total = kept, total
	if start < len(w.heads) {
		w.pieces = append(w.pieces, w.heads[start:])
	}
	w.rest = w.pieces
	w.cookie = taken
	if cookie != 0 {
		w.cookie = 0
		// No message was encoded, so none carries the cookie. Acknowledge it with a NOOP.
		c.mu.Lock()
		c.acks.Add(cookie)
		c.mu.Unlock()
	}
}

// appendHead appends the frame, if the version has frames, and the LNet header of m to heads. The frame
// acknowledges cookie. With checksums, it reads the payload and returns an error if a program has taken its
// memory away.
func (c *conn) appendHead(m *lnd.Tx, cookie uint64) error {
	w := &c.w
	if !c.version.LargeNIDs() && (m.Header.Src.IsLarge() || m.Header.Dest.IsLarge()) {
		return lnd.ErrLargeNID
	}
	at := len(w.heads)
	if c.version.Framed() {
		f := protocol.Frame{Type: protocol.FrameLNet, Ack: cookie}
		w.heads = f.Append(w.heads, binary.LittleEndian)
	}
	var err error
	w.heads, err = c.version.AppendHeader(w.heads, &m.Header)
	if err == nil && c.checksums() {
		sum := protocol.Checksum(protocol.ChecksumInit, w.heads[at:])
		w.summed = m.Payload.AppendBuffers(w.summed[:0])
		fault := memory.Guard(func() { sum = protocol.Checksum(sum, w.summed...) })
		clear(w.summed)
		if fault != nil {
			return fault
		}
		binary.LittleEndian.PutUint32(w.heads[at+4:], c.peer.i.injectError(sum))
	}
	return err
}

// checksums reports whether messages carry checksums. Only V2 supports them (socklnd 9).
func (c *conn) checksums() bool {
	return c.version == protocol.V2 && c.peer.i.driver.config.EnableChecksum
}

// injectError returns sum. If the configuration asks for a wrong checksum, the first call returns a wrong one
// instead. It is never 0, because 0 means that there is no checksum.
func (i *Interface) injectError(sum uint32) uint32 {
	if !i.driver.config.InjectChecksumError || i.injected.Swap(true) {
		return sum
	}
	return max(sum+1, 1)
}

// checksumNoop stores the checksum in an encoded NOOP, if messages on the connection carry checksums.
func (c *conn) checksumNoop(frame []byte) {
	if c.checksums() {
		binary.LittleEndian.PutUint32(frame[4:], protocol.Checksum(protocol.ChecksumInit, frame))
	}
}

// push writes the batch and completes each message when all of it has been written. It returns false if the
// stream is full. If the write fails, it closes the connection, fails the rest of the batch, and returns true.
func (c *conn) push() bool {
	w := &c.w
	for len(w.rest) > 0 {
		n, err := c.stream.TryWrite(w.rest)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false // AwaitWritable handles the deadline
		}
		if errors.Is(err, syscall.EFAULT) {
			if err = c.dropFaulty(); err == nil {
				continue
			}
		}
		if err != nil {
			c.writeFailed(err)
			return true
		}
		if n == 0 {
			return false
		}
		c.sent.Add(uint64(n))
		w.wrote += n
		w.rest = skip(w.rest, n)
		c.complete()
	}
	return true
}

// skip drops the first n bytes of bufs.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// complete completes the messages of the batch of which all bytes have been written.
func (c *conn) complete() {
	w := &c.w
	end := w.first
	for end < w.n && w.batch[end].end <= w.wrote {
		end++
	}
	if end == w.first {
		return
	}
	c.queuedBytes.Add(-int64(w.batch[end-1].end - w.start(w.first)))
	for w.first < end {
		m := w.batch[w.first].m
		w.batch[w.first].m = nil
		w.first++
		m.Done.Sent(m, nil)
	}
}

// writeFailed closes the connection after a write has failed with err, and fails the rest of the batch.
func (c *conn) writeFailed(err error) {
	c.peer.fail(c, err) // does nothing if the connection was closed before
	if cause := c.closeCause(); cause != nil {
		err = cause
	}
	c.failBatch(err)
}

// failBatch fails the messages of the batch that are not complete. If a part of a message has been written, the
// message may arrive, so it fails with a status that forbids LNet to resend it.
func (c *conn) failBatch(cause error) {
	w := &c.w
	w.rest = nil
	for w.first < w.n {
		m := w.batch[w.first].m
		start := w.start(w.first)
		w.batch[w.first].m = nil
		w.first++
		err := c.unstartedError(cause)
		if w.wrote > start {
			err = c.peer.i.Error("send", c.peer.ID.NID, startedStatus(cause), timeoutErrno(cause))
		}
		c.peer.i.Out.Add(peering.Failed(m, err))
	}
}

// start returns the offset in the batch at which message k begins.
func (w *writer) start(k int) int {
	if k == 0 {
		return w.noops
	}
	return w.batch[k-1].end
}

// releaseWriter releases the writer's role.
func (c *conn) releaseWriter() {
	c.mu.Lock()
	c.releaseWriterLocked()
}

// releaseWriterLocked releases the writer's role. It is called with mu held and releases mu.
func (c *conn) releaseWriterLocked() {
	c.writing = false
	counted := c.counted
	c.counted = false
	c.mu.Unlock()
	if counted {
		c.peer.i.Group.Done()
	}
}
