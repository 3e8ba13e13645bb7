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

// Writing. A goroutine that queues a message on a connection without a writer takes the writer's role
// and writes at once. It keeps the role while it completes the written messages: messages sent by
// completions join its next write instead of recursing. If the stream would block, a drainer goroutine
// takes over.

const (
	// A batch is the content of one write.
	maxBatch      = 64
	maxBatchBytes = 256 << 10
	maxPieces     = 512 // below the system limit of 1024
	// maxCorked is how many messages a reader holds back until the end of its batch. Sending half of a
	// batch early lets the peer work on it while we process the rest. Otherwise each side would wait
	// for the other's whole batch.
	maxCorked = maxBatch / 2
	// maxRounds is the number of batches that a sender writes before it leaves the rest to a drainer.
	maxRounds = 32
	// maxAcks is the maximum number of NOOPs that may wait on a connection. A correct peer has at most
	// as many requests outstanding as it has credits, and their cookies merge.
	maxAcks = 4096
)

// writer is the batch being written. It belongs to the holder of the writer's role.
type writer struct {
	batch [maxBatch]*lnd.Tx
	ends  [maxBatch]int // offset in the batch at which each message ends
	n     int           // messages in batch
	first int           // first message that is not complete
	wrote int           // bytes of the batch that have been written
	total int
	noops int // bytes of NOOPs before the messages
	// cookie is the cookie that the batch's first message acknowledges. 0 means none.
	cookie uint64

	heads  []byte   // framing and LNet headers
	pieces [][]byte // the whole batch
	rest   [][]byte // unwritten part of pieces
	summed [][]byte // the payload whose checksum is being computed
}

// enqueue queues m, and writes it if no other goroutine is writing. It returns false if the connection
// is dead. In that case m is untouched.
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

// queue queues m. It is called with mu held, or before other goroutines can see the connection.
func (c *conn) queue(m *lnd.Tx) {
	c.queued.push(m)
	c.queuedBytes.Add(int64(m.Payload.Length + c.version.Overhead()))
}

// acknowledge queues the acknowledgement of a cookie. It returns an error if too many are waiting.
// Otherwise a peer that sends requests but does not read the answers could make the queue grow without
// limit.
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

// writeUnlock releases mu and writes the queue, unless another goroutine is writing. If the queue is
// short, it leaves the write to a reader at the end of its batch, or to the flusher if the sender has
// more messages.
func (c *conn) writeUnlock(more bool) {
	p := c.peer
	if c.writing {
		c.mu.Unlock()
		return
	}
	if c.queued.len() < maxCorked && p.corks.Load() > 0 {
		p.dirty.Store(true)
		if p.corks.Load() > 0 {
			c.mu.Unlock()
			return
		}
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

// flushSoon writes the queue on behalf of senders that announced further messages, and so left the
// write to the flusher.
func (c *conn) flushSoon() {
	defer c.peer.i.Group.Done()
	c.mu.Lock()
	c.awaited = false
	c.mu.Unlock()
	c.flushQueued()
}

// flushQueued writes the queue, unless another goroutine is writing.
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

// flush writes without blocking until the queue is empty. If the stream is full, it starts a drainer.
// The caller has the writer's role.
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

func (c *conn) startDrainer() {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		c.failBatch(c.closeCause())
		c.releaseWriter()
		return
	}
	// The interface waits only for the writers of dead connections, so the drainer counts itself.
	c.peer.i.Group.Add(1)
	c.mu.Unlock()
	go c.drainer()
}

// drain is like flush, but blocks while the stream is full.
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

// fill takes the next batch from the queue. If the queue is empty, it releases the writer's role and
// returns false.
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
		w.batch[w.n] = c.queued.pop()
		w.n++
		w.total += m.Payload.Length
	}
	c.mu.Unlock()
	c.encode(cookie)
	return true
}

// encode builds the batch: all headers in heads, and pieces that alternate between heads and payloads.
func (c *conn) encode(cookie uint64) {
	w, taken := &c.w, cookie
	if need := w.noops + w.n*c.version.Overhead(); cap(w.heads) < need {
		// Pieces point into heads, so heads must not be reallocated.
		w.heads = append(make([]byte, 0, max(need, 4*c.version.Overhead())), w.heads...)
	}
	start := 0 // of the headers that are not in a piece yet
	total := w.noops
	kept := 0
	for _, m := range w.batch[:w.n] {
		head := len(w.heads)
		if err := c.appendHead(m, cookie); err != nil {
			w.heads = w.heads[:head]
			c.queuedBytes.Add(-int64(m.Payload.Length + c.version.Overhead()))
			c.peer.i.Out.Add(peering.Failed(m, c.peer.i.Error("send", c.peer.ID.NID, lnd.StatusLocalError, err)))
			continue
		}
		cookie = 0
		total += len(w.heads) - head + m.Payload.Length
		w.batch[kept], w.ends[kept] = m, total
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
		// No message carried the cookie.
		c.mu.Lock()
		c.acks.Add(cookie)
		c.mu.Unlock()
	}
}

// appendHead appends m's framing and LNet headers to heads.
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

// injectError returns the checksum, or once a wrong one if the configuration asks for that. The wrong one is
// not 0, which would mean that there is no checksum.
func (i *Interface) injectError(sum uint32) uint32 {
	if !i.driver.config.InjectChecksumError || i.injected.Swap(true) {
		return sum
	}
	return max(sum+1, 1)
}

// checksumNoop writes the checksum into an encoded NOOP.
func (c *conn) checksumNoop(frame []byte) {
	if c.checksums() {
		binary.LittleEndian.PutUint32(frame[4:], protocol.Checksum(protocol.ChecksumInit, frame))
	}
}

// push writes the batch and completes its messages as they leave. It returns false if the stream is
// full. After an error it fails the rest of the batch and returns true.
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

// complete completes the messages of the batch that have been written in full.
func (c *conn) complete() {
	w := &c.w
	for w.first < w.n && w.ends[w.first] <= w.wrote {
		m := w.batch[w.first]
		w.batch[w.first] = nil
		w.first++
		c.queuedBytes.Add(-int64(m.Payload.Length + c.version.Overhead()))
		m.Done.Sent(m, nil)
	}
}

// writeFailed closes the peer's connections after a failed write and fails the rest of the batch.
func (c *conn) writeFailed(err error) {
	c.peer.fail(c, err) // does nothing if the connection is already closed
	if cause := c.closeCause(); cause != nil {
		err = cause
	}
	c.failBatch(err)
}

// failBatch fails the unwritten messages of the batch. A message of which bytes have been written may
// have arrived, so its status forbids resending.
func (c *conn) failBatch(cause error) {
	w := &c.w
	w.rest = nil
	for w.first < w.n {
		m := w.batch[w.first]
		start := w.start(w.first)
		w.batch[w.first] = nil
		w.first++
		err := c.unstartedError(cause)
		if w.wrote > start {
			err = c.peer.i.Error("send", c.peer.ID.NID, startedStatus(cause), timeoutErrno(cause))
		}
		c.peer.i.Out.Add(peering.Failed(m, err))
	}
}

// start returns the offset of message k in the batch.
func (w *writer) start(k int) int {
	if k == 0 {
		return w.noops
	}
	return w.ends[k-1]
}

// releaseWriter releases the writer's role.
func (c *conn) releaseWriter() {
	c.mu.Lock()
	c.releaseWriterLocked()
}

// releaseWriterLocked is releaseWriter with mu held. It releases mu.
func (c *conn) releaseWriterLocked() {
	c.writing = false
	owed := c.owed
	c.owed = false
	c.mu.Unlock()
	if owed {
		c.peer.i.Group.Done()
	}
}
