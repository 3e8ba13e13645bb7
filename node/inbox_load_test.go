package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// office is a node with an inbox on portal 3, and others that send to it.
type office struct {
	testing.TB
	fabric  *simlnd.Fabric
	server  *node.Node
	to      lnet.ProcessID
	senders []*node.Node
}

func newOffice(t testing.TB, link simlnd.Link, senders int) *office {
	t.Helper()
	c := &office{TB: t, fabric: simlnd.New(simlnd.Config{Seed: 1, Link: link})}
	t.Cleanup(c.fabric.Close)
	c.server = c.start("10.0.0.1")
	c.to = process(t, "10.0.0.1@tcp")
	for k := range senders {
		c.senders = append(c.senders, c.start(fmt.Sprintf("10.0.1.%d", k+1)))
	}
	return c
}

func (c *office) start(address string) *node.Node {
	c.Helper()
	d, err := simlnd.NewDriver(c.fabric.Host(address, address), socklnd.DefaultConfig())
	if err != nil {
		c.Fatal(err)
	}
	closeAtEnd(c, d)
	n, err := node.Start(context.Background(), node.Config{Parameters: new(static())}, d, address+"@tcp")
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			c.Error(err)
		}
	})
	return n
}

// send sends the messages numbered first to end-1, several at a time, and waits for their
// ACKs.
func (c *office) send(from *node.Node, first, end, workers int) {
	var group sync.WaitGroup
	defer group.Wait()
	number := atomic.Int64{}
	number.Store(int64(first))
	for range workers {
		group.Go(func() {
			b := make([]byte, 16)
			for k := int(number.Add(1) - 1); k < end; k = int(number.Add(1) - 1) {
				binary.LittleEndian.PutUint64(b, uint64(k))
				o := node.PutOptions{Portal: 3, HdrData: uint64(k), Ack: true}
				if taken, err := from.PutWait(context.Background(), b, c.to, o); err != nil || taken != len(b) {
					c.Errorf("message %d: %d bytes taken, %v", k, taken, err)
				}
			}
		})
	}
}

// sendAll sends n messages, divided among the senders.
func (c *office) sendAll(n, workers int) {
	var group sync.WaitGroup
	defer group.Wait()
	part := n / len(c.senders)
	for k, from := range c.senders {
		group.Go(func() { c.send(from, k*part, (k+1)*part, workers) })
	}
}

// tally counts messages by number.
type tally struct {
	mu    sync.Mutex // guards count
	count map[uint64]int
}

func (y *tally) note(t testing.TB, m *node.Message) {
	if k := binary.LittleEndian.Uint64(m.Data); k != m.HdrData {
		t.Errorf("message %d has the bytes of %d", m.HdrData, k)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.count[m.HdrData]++
}

// check checks that n messages have arrived once each, and that none was dropped.
func (y *tally) check(t testing.TB, server *node.Node, n int) {
	t.Helper()
	for k := range n {
		if got := y.count[uint64(k)]; got != 1 {
			t.Fatalf("message %d came %d times", k, got)
		}
	}
	if len(y.count) != n {
		t.Errorf("%d messages, want %d", len(y.count), n)
	}
	if got := server.Admin().Drops(); got.Total() != 0 {
		t.Errorf("drops %v", got)
	}
}

// Several readers read the messages of several senders. Each message arrives once, and
// its bytes do not change until it is released.
func TestInboxTakesEachOnce(t *testing.T) {
	const messages, senders, workers, readers = 10_000, 4, 8, 3
	c := newOffice(t, simlnd.Link{}, senders)
	b := openInbox(t, c.server, node.InboxConfig{Portal: 3, Size: 16, Buffers: 10})
	y := tally{count: map[uint64]int{}}
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() {
			for m, err := range b.Messages(context.Background()) {
				if err != nil {
					if !errors.Is(err, node.ErrClosed) {
						t.Error(err)
					}
					return
				}
				y.note(t, &m)
			}
		})
	}
	c.sendAll(messages, workers)
	b.Close()
	reading.Wait()
	y.check(t, c.server, messages)
}

// A reader that needs a second for each message slows the senders down and loses nothing.
func TestInboxReaderIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, senders, workers = 300, 3, 8
		c := newOffice(t, simlnd.Link{Latency: time.Millisecond}, senders)
		b := openInbox(t, c.server, node.InboxConfig{Portal: 3, Size: 16, Buffers: 2})
		y := tally{count: map[uint64]int{}}
		var reading sync.WaitGroup
		reading.Go(func() {
			for m, err := range b.Messages(context.Background()) {
				if err != nil {
					return
				}
				time.Sleep(time.Second)
				y.note(t, &m)
			}
		})
		c.sendAll(messages, workers)
		b.Close()
		reading.Wait()
		y.check(t, c.server, messages)
	})
}

// large sends a PUT of 1 MiB, which takes a second to arrive. It returns a channel for
// the result.
func (c *office) large() <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := c.senders[0].PutWait(context.Background(), make([]byte, lnet.MTU), c.to, node.PutOptions{Portal: 3, Ack: true})
		ended <- err
	}()
	return ended
}

// slowLink transfers a message of 1 MiB in about a second.
var slowLink = simlnd.Link{Latency: time.Millisecond, Bandwidth: lnet.MTU}

// A message that is arriving while the inbox closes is delivered.
func TestInboxClosesWhileAMessageComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOffice(t, slowLink, 1)
		b := openInbox(t, c.server, node.InboxConfig{Portal: 3, Buffers: 1})
		ended := c.large()
		time.Sleep(time.Second / 2)
		b.Close()
		if m := next(t, b); len(m.Data) != lnet.MTU {
			t.Errorf("%d bytes", len(m.Data))
		}
		if _, err := b.Next(t.Context()); !errors.Is(err, node.ErrClosed) {
			t.Errorf("%v, want closed", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("PUT: %v", err)
		}
	})
}

// A message that is interrupted is not delivered, and its buffer is used for the next
// one.
func TestInboxMessageBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOffice(t, slowLink, 1)
		b := openInbox(t, c.server, node.InboxConfig{Portal: 3, Buffers: 1})
		ended := c.large()
		time.Sleep(time.Second / 2)
		for _, conn := range c.fabric.Conns() {
			conn.Reset()
		}
		if err := <-ended; err == nil {
			t.Error("the PUT has succeeded")
		}
		time.Sleep(time.Minute) // the sender waits before it connects again
		c.send(c.senders[0], 5, 6, 1)
		if m := next(t, b); m.HdrData != 5 {
			t.Errorf("message %d, want 5", m.HdrData)
		}
	})
}
