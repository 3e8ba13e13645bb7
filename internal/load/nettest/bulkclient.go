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

// bulkClient announces pairs of passive buffers, and counts what the servers have fetched and returned.
type bulkClient struct {
	workShare
	slots []bulkSlot
	ready [][]int             // per server: slots with descriptors to send
	free  []*transport.Buffer // for messages with descriptors
	pairs []message.Pair      // scratch
}

// bulkSlot is one of the concurrent transfers (transport 10.3). Its states are: unused, queued, announced
// with two completions left, one completion left, and unused again.
type bulkSlot struct {
	server     int
	send, recv *transport.Buffer
	begun      time.Time
	sequence   uint64
	failures   int // in a row
	left       int // outstanding completions
	length     int // of the returned bulk
	failed     bool
	// again is set if the next tick must begin another transfer, done if nothing is left to do.
	again, done bool
}

// announcement has the slots whose descriptors are in a message.
type announcement struct{ slots []int }

func (c *bulkClient) prepare(ctx context.Context) error {
	n := len(c.test.Peers)
	err := c.find()
	if err != nil {
		return err
	}
	callbacks := &transport.Callbacks{
		transport.MsgSend:         c.locked(c.announced),
		transport.PassiveBulkSend: c.locked(c.fetched),
		transport.PassiveBulkRecv: c.locked(c.brought),
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
		return fmt.Errorf("buffers of %d bytes have no room for two descriptors of %d: %w", c.test.BufferSize, d, syscall.EINVAL)
	}
	return nil
}

func (c *bulkClient) begin() {
	for k := range c.slots {
		c.next(k)
	}
}

// next begins the next transfer of a slot, if any is left.
func (c *bulkClient) next(k int) {
	s := &c.slots[k]
	if !c.beginOne(s.server) {
		s.done = true
		return
	}
	s.failures = 0
	c.queue(k)
}

// queue queues the buffers of a slot. After that, their descriptors can be sent.
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
		s.left++
	}
	if s.failed {
		if s.left > 0 {
			c.loop.TM.Cancel(s.recv)
			return
		}
		c.transferDone(k)
		return
	}
	c.ready[s.server] = append(c.ready[s.server], k)
}

// flush sends descriptors, several pairs per message.
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

// announced is the callback of messages with descriptors.
func (c *bulkClient) announced(e *transport.BufferEvent) { c.messageSent(e.Buffer, e.Err) }

// messageSent continues when a message has been sent or has failed.
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

// cancel cancels a transfer, unless it has ended.
func (c *bulkClient) cancel(k int) {
	if s := &c.slots[k]; s.left > 0 {
		s.failed = true
		c.loop.TM.Cancel(s.send)
		c.loop.TM.Cancel(s.recv)
	}
}

// fetched is the callback of a buffer that a server has fetched.
func (c *bulkClient) fetched(e *transport.BufferEvent) {
	count(&c.figures.BulkSent, e.Err)
	if e.Err == nil {
		c.figures.BytesOut += uint64(c.test.Size)
	}
	c.completed(e)
}

// brought is the callback of a buffer that a server has filled.
func (c *bulkClient) brought(e *transport.BufferEvent) {
	count(&c.figures.BulkReceived, e.Err)
	if e.Err == nil {
		c.figures.BytesIn += uint64(e.Length)
	}
	k, _ := e.Buffer.Data.(int)
	c.slots[k].length = e.Length
	c.completed(e)
}

// completed handles the completion of one of a slot's two buffers.
func (c *bulkClient) completed(e *transport.BufferEvent) {
	k, _ := e.Buffer.Data.(int)
	s := &c.slots[k]
	s.left--
	if e.Err != nil {
		c.cancel(k)
		s.failed = true
	}
	if s.left == 0 {
		c.transferDone(k)
	}
}

// transferDone counts a completed transfer, and begins the next one.
func (c *bulkClient) transferDone(k int) {
	s := &c.slots[k]
	c.figures.Transfers.Total++
	if !s.failed {
		if c.broken(s) {
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

// broken reports whether the returned bulk differs from what was sent, as far as it is checked.
func (c *bulkClient) broken(s *bulkSlot) bool {
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

// fill fills b with a pattern that is unique for the seed.
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
