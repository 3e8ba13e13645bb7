package nettest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// bulkClient is the client of a bulk test. It sends the descriptors of pairs of passive buffers to
// servers. A server reads the first buffer of a pair and writes the same data to the second one.
type bulkClient struct {
	clientWork
	slots []bulkSlot
	ready [][]int             // by server: slots whose descriptors must be sent
	free  []*transport.Buffer // free buffers for messages with descriptors
	pairs []message.Pair      // used only in announce
}

// bulkSlot runs one transfer after the other; a client has as many slots as concurrent transfers
// (transport 10.3). In each transfer, both buffers are queued, their descriptors are sent, and two final
// events must come.
type bulkSlot struct {
	server      int
	send, recv  *transport.Buffer
	begun       time.Time
	sequence    uint64
	failures    int // number of consecutive failures
	outstanding int // number of final events that must still come: 0 to 2
	length      int // bytes that the server has written
	failed      bool
	// again is set if the next tick must start the transfer again, and done if the slot will start no more
	// transfers.
	again, done bool
}

// announcement lists the slots whose descriptors are in a message. It is the Data of the message's
// buffer.
type announcement struct{ slots []int }

func (c *bulkClient) prepare(ctx context.Context) error {
	n := len(c.test.Peers)
	err := c.resolveServers()
	if err != nil {
		return err
	}
	callbacks := &transport.Callbacks{
		transport.MsgSend:         c.locked(c.announced),
		transport.PassiveBulkSend: c.locked(c.fetched),
		transport.PassiveBulkRecv: c.locked(c.filled),
	}
	c.slots, c.ready = make([]bulkSlot, n*c.test.Concurrency), make([][]int, n)
	for k := range c.slots {
		s := &c.slots[k]
		s.server = k % n
		for _, b := range []**transport.Buffer{&s.send, &s.recv} {
			if *b, err = c.newBuffer(ctx, c.test.Size, callbacks); err != nil {
				return err
			}
			(*b).Data, (*b).Length = k, c.test.Size
		}
		s.send.Queue, s.recv.Queue = transport.PassiveBulkSend, transport.PassiveBulkRecv
	}
	for range c.test.Buffers {
		b, err := c.newBuffer(ctx, c.test.BufferSize, callbacks)
		if err != nil {
			return err
		}
		b.Queue, b.Data = transport.MsgSend, &announcement{}
		c.free = append(c.free, b)
	}
	if d := c.domain.Limits().DescriptorSize; message.BulkSize(1, d) > c.test.BufferSize {
		return fmt.Errorf("a buffer of %d bytes is too small for two descriptors of %d bytes: %w", c.test.BufferSize, d, syscall.EINVAL)
	}
	return nil
}

func (c *bulkClient) begin() {
	for k := range c.slots {
		c.next(k)
	}
}

// next starts the next transfer of slot k. It sets done if no transfers are left.
func (c *bulkClient) next(k int) {
	s := &c.slots[k]
	if !c.takeNext(s.server) {
		s.done = true
		return
	}
	s.failures = 0
	c.queue(k)
}

// queue adds the two buffers of slot k to their queues, so that flush can send their descriptors.
func (c *bulkClient) queue(k int) {
	s := &c.slots[k]
	s.sequence++
	s.begun, s.failed, s.again, s.length = time.Now(), false, false, 0
	if c.test.Verify {
		fill(s.send.Bytes(), uint64(k)<<40+s.sequence)
	}
	for _, b := range []*transport.Buffer{s.recv, s.send} {
		b.Deadline = s.begun.Add(c.test.Timeout)
		if err := c.loop.TM.Add(b); err != nil {
			s.failed = true
			break
		}
		s.outstanding++
	}
	if s.failed {
		if s.outstanding > 0 {
			c.loop.TM.Cancel(s.recv)
			return
		}
		c.transferDone(k)
		return
	}
	c.ready[s.server] = append(c.ready[s.server], k)
}

// flush sends the descriptors of all ready slots, several pairs per message, as long as message buffers
// are free.
func (c *bulkClient) flush() {
	for server := range c.ready {
		for len(c.ready[server]) > 0 && len(c.free) > 0 {
			c.announce(server)
		}
	}
}

func (c *bulkClient) announce(server int) {
	b := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	a := b.Data.(*announcement)
	c.pairs, a.slots = c.pairs[:0], a.slots[:0]
	size := message.BulkSize(0, 0)
	for _, k := range c.ready[server] {
		s := &c.slots[k]
		more := message.BulkSize(1, max(len(s.send.Descriptor), len(s.recv.Descriptor))) - message.BulkSize(0, 0)
		if len(c.pairs) >= c.test.Descriptors/2 || size+more > c.test.BufferSize {
			break
		}
		size += more
		c.pairs = append(c.pairs, message.Pair{Send: s.send.Descriptor, Recv: s.recv.Descriptor})
		a.slots = append(a.slots, k)
	}
	c.ready[server] = slices.Delete(c.ready[server], 0, len(a.slots))
	b.Length = len(message.AppendBulk(b.Bytes()[:0], c.pairs))
	b.EndPoint, b.Deadline = c.servers[server], time.Now().Add(c.test.Timeout)
	if err := c.loop.TM.Add(b); err != nil {
		c.messageSent(b, err)
	}
}

// announced is the callback for the buffers of messages with descriptors.
func (c *bulkClient) announced(e *transport.BufferEvent) { c.messageSent(e.Buffer, e.Err) }

// messageSent counts a message that was sent or has failed, and frees its buffer. If the message failed,
// it cancels the transfers that the message announced.
func (c *bulkClient) messageSent(b *transport.Buffer, err error) {
	count(&c.figures.Sent, err)
	if err != nil {
		for _, k := range b.Data.(*announcement).slots {
			c.cancel(k)
		}
	}
	b.EndPoint = nil
	c.free = append(c.free, b)
}

// cancel cancels the transfer of slot k, unless it has ended.
func (c *bulkClient) cancel(k int) {
	if s := &c.slots[k]; s.outstanding > 0 {
		s.failed = true
		c.loop.TM.Cancel(s.send)
		c.loop.TM.Cancel(s.recv)
	}
}

// fetched is the callback for a buffer that a server reads.
func (c *bulkClient) fetched(e *transport.BufferEvent) {
	count(&c.figures.BulkSent, e.Err)
	if e.Err == nil {
		c.figures.BytesOut += uint64(c.test.Size)
	}
	c.completed(e)
}

// filled is the callback for a buffer that a server writes.
func (c *bulkClient) filled(e *transport.BufferEvent) {
	count(&c.figures.BulkReceived, e.Err)
	if e.Err == nil {
		c.figures.BytesIn += uint64(e.Length)
	}
	k, _ := e.Buffer.Data.(int)
	c.slots[k].length = e.Length
	c.completed(e)
}

// completed handles the final event of one of a slot's two buffers. If it has an error, the other buffer
// is cancelled.
func (c *bulkClient) completed(e *transport.BufferEvent) {
	k, _ := e.Buffer.Data.(int)
	s := &c.slots[k]
	s.outstanding--
	if e.Err != nil {
		c.cancel(k)
		s.failed = true
	}
	if s.outstanding == 0 {
		c.transferDone(k)
	}
}

// transferDone counts a transfer that has ended. After a success it starts the next one. After a failure
// the next tick starts the transfer again, unless it has failed too often or the time of the test is
// over.
func (c *bulkClient) transferDone(k int) {
	s := &c.slots[k]
	c.figures.Transfers.Total++
	if !s.failed {
		if c.contentWrong(s) {
			c.figures.Transfers.Bad++
			c.figures.BulkReceived.Bad++
		}
		c.roundTrip(s.begun)
		c.next(k)
		return
	}
	c.figures.Transfers.Failed++
	waiting := &c.ready[s.server]
	*waiting = slices.DeleteFunc(*waiting, func(o int) bool { return o == k })
	if s.failures++; s.failures >= failuresMax || c.timeOver(time.Now()) {
		s.done = true
		return
	}
	s.again = true
}

// contentWrong reports whether the data that the server has written differs from the data that it has
// read. It compares only lengths if the test does not verify content.
func (c *bulkClient) contentWrong(s *bulkSlot) bool {
	if s.length != c.test.Size {
		return true
	}
	return c.test.Verify && !bytes.Equal(s.send.Bytes()[:s.length], s.recv.Bytes()[:s.length])
}

func (c *bulkClient) tick(_ time.Time) {
	for k := range c.slots {
		if c.slots[k].again {
			c.queue(k)
		}
	}
}

func (c *bulkClient) finished() bool {
	for k := range c.slots {
		if !c.slots[k].done {
			return false
		}
	}
	return len(c.free) == c.test.Buffers
}

// fill fills b with a pattern that depends on the seed.
func fill(b []byte, seed uint64) {
	const odd = 0x9e37_79b9_7f4a_7c15
	word := seed*odd | 1
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, word)
		word += odd
		b = b[8:]
	}
	for k := range b {
		b[k] = byte(word >> (8 * k))
	}
}
