package socklnd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

// A placing is where an arrived message stands between upcall and placement.
// Whoever changes it last acts: the reader, or the caller of Receive.
const (
	placingUpcall    uint32 = iota // the upcall runs or the reader has not looked yet
	placingWait                    // the reader waits for a placement
	placingDone                    // the placement is there
	placingWithdrawn               // the connection died; the reader is telling so
	placingDead                    // it has told; the placement fails when it comes
)

// read reads from the connection until it ends.
func (c *conn) read() {
	defer c.peer.i.group.Done()
	c.poll.stream, _ = c.stream.(Pollable)
	err := c.readAlone()
	if err == nil {
		err = c.readShared()
	}
	c.peer.talking.CompareAndSwap(c, nil)
	if c.open {
		// The connection went away inside a payload.
		c.open = false
		c.failPlacement(err)
	}
	c.rx.Close()
	c.peer.fail(c, err)
}

// readAlone reads until the connection is to be shared: then there is no error.
func (c *conn) readAlone() error {
	for !c.share() {
		n, err := c.stream.Read(c.rx.Buffers())
		if err := c.digest(n, err); err != nil {
			return err
		}
	}
	return nil
}

// digest does what a read calls for that has ended with n bytes, or with err. Its error ends
// the connection.
func (c *conn) digest(n int, err error) error {
	switch {
	case err == nil:
		c.received.Add(uint64(n))
		c.rx.Filled(n)
		c.heard()
		return c.work(nil)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.rest()
	case errors.Is(err, syscall.EFAULT) && c.rx.Abandon():
		return c.arrived(c.faulty(err))
	}
	return c.readError(err)
}

// rest gives back what an idle connection does not need: the reaper has woken the reader.
func (c *conn) rest() error {
	if err := c.stream.SetReadDeadline(time.Time{}); err != nil {
		return c.readError(err)
	}
	c.rx.Rest()
	c.large.Store(false)
	return nil
}

// work consumes what has been read. If first is not nil that goes on with the message at hand.
func (c *conn) work(first func() error) error {
	err := c.consumeCorked(first)
	if n := c.rx.Copied(); n != c.copied.Load() {
		c.copied.Store(n)
	}
	if err != nil {
		return err
	}
	c.partial.Store(c.rx.Partial())
	c.large.Store(c.rx.Large())
	return nil
}

// consumeCorked is consume that sends what it brings about in batches.
func (c *conn) consumeCorked(first func() error) error {
	c.peer.cork()
	defer c.peer.uncork()
	if first != nil {
		if err := first(); err != nil {
			return err
		}
	}
	return c.consume()
}

// readError explains the end of a stream (socklnd 13).
func (c *conn) readError(err error) error {
	switch {
	case errors.Is(err, io.EOF) && c.rx.Partial():
		c.peer.i.counters.protocolErrors.Add(1)
		return errTruncated
	case errors.Is(err, io.EOF):
		return errEOF
	}
	if cause := c.causeOfDeath(); cause != nil {
		return cause
	}
	return err
}

// consume works through the bytes that have been read.
func (c *conn) consume() error {
	for {
		event, fault, err := c.next()
		if err != nil {
			return c.protocolError(err)
		}
		if fault != nil {
			c.rx.Abandon()
			if err := c.arrived(c.faulty(fault)); err != nil {
				return err
			}
			continue
		}
		switch event {
		case protocol.NeedBytes:
			return nil
		case protocol.GotNoop, protocol.GotAck:
			if err := c.acknowledged(); err != nil {
				return c.protocolError(err)
			}
		case protocol.GotHeader:
			if err := c.arrive(); err != nil {
				return err
			}
		case protocol.GotPayload:
			if err := c.arrived(nil); err != nil {
				return err
			}
		}
	}
}

// next is Next of the receiver, or the fault of the payload's memory that ended it.
func (c *conn) next() (event protocol.Event, fault *memory.Fault, err error) {
	if !c.open { // there is no payload that goes anywhere
		event, err = c.rx.Next()
		return event, nil, err
	}
	fault = memory.Guard(func() { event, err = c.rx.Next() })
	return event, fault, err
}

// faulty is the error of a message whose payload's memory is gone on this side, which is
// neither the peer's fault nor the network's: the connection stays.
func (c *conn) faulty(cause error) error {
	return messageError("receive", c.peer.id.NID, lnd.StatusLocalError, cause)
}

func (c *conn) protocolError(err error) error {
	count := &c.peer.i.counters.protocolErrors
	var sum *protocol.ChecksumError
	if errors.As(err, &sum) {
		count = &c.peer.i.counters.checksumErrors
	}
	count.Add(1)
	return fmt.Errorf("%w: %w", lnd.ErrProtocol, err)
}

// acknowledged handles the cookies in the frame at hand. We never request an
// acknowledgement, so that any is one too many (socklnd 10.3).
func (c *conn) acknowledged() error {
	cookies, err := protocol.Acknowledged(c.rx.Frame(), c.version)
	if err != nil {
		return err
	}
	if n := cookies.Len(); n > 0 {
		return fmt.Errorf("frame: zc_cookies: %d acknowledged, none outstanding", n)
	}
	return nil
}

// arrive hands the header up and takes the placement, for which the reader waits if
// need be; only this connection is held up.
func (c *conn) arrive() error {
	if c.poll.choosy && !isAnswer(&c.m.Header) {
		return errRequest
	}
	p := c.peer
	if p.unprivileged() {
		// Only its connection says who the peer is (socklnd 5.2).
		c.m.Header.Src, c.m.Header.SrcPID = p.id.NID, p.id.PID
	}
	c.placing.Store(placingUpcall)
	if err := p.i.upper.Arrived(&c.m); err != nil {
		return c.protocolError(err)
	}
	if !c.placing.CompareAndSwap(placingUpcall, placingWait) {
		return c.take()
	}
	if c.poll.byCaller {
		return errUnplaced
	}
	return c.place()
}

// place waits for the placement of the message at hand, and begins with its payload.
func (c *conn) place() error {
	c.poll.end() // it may take long
	if err := c.await(); err != nil {
		return err
	}
	return c.take()
}

// await waits for a placement. What has been sent meanwhile must leave, the
// receive timer stops, and the reaper watches for the peer's end, which nobody
// reads (it sees placingWait). If the connection dies first, the arrival is
// withdrawn; a placement that comes while the upper side is being told fails
// here, afterwards, so that m lasts as long as the upcall.
func (c *conn) await() error {
	c.peer.uncork()
	defer c.peer.cork()
	select {
	case <-c.placed:
		return nil
	case <-c.closed:
	}
	cause := c.causeOfDeath()
	if c.placing.CompareAndSwap(placingWait, placingWithdrawn) {
		c.peer.i.upper.Withdrawn(&c.m)
		if c.placing.CompareAndSwap(placingWithdrawn, placingDead) {
			return cause
		}
	}
	c.failPlacement(cause)
	return cause
}

// receive is Interface.Receive.
func (c *conn) receive(p lnd.Placement) {
	if c.placing.Load() == placingDead {
		c.failReceive(p, c.causeOfDeath())
		return
	}
	c.placement = p
	switch c.placing.Swap(placingDone) {
	case placingWait:
		c.placed <- struct{}{}
	case placingDead:
		c.failPlacement(c.causeOfDeath())
	}
}

// take begins with the payload of the message whose placement has come.
func (c *conn) take() error {
	c.pieces = c.placement.Memory.AppendBuffers(c.pieces[:0])
	if err := c.rx.Place(c.pieces); err != nil {
		c.failPlacement(err)
		return err
	}
	clear(c.pieces)
	c.open = c.placement.Done != nil
	return nil
}

// arrived completes the message at hand: the wanted part of its payload is in
// place, or, with an error, there is no place for it. A zero-copy request is acknowledged before the rest is skipped
// (socklnd 10.2).
func (c *conn) arrived(failure error) error {
	if request := c.rx.Frame().Request; request != 0 {
		routed := c.m.Header.Src != c.peer.id.NID
		if err := c.peer.acknowledge(request, routed); err != nil {
			return fmt.Errorf("acknowledge cookie %d: %w", request, err)
		}
	}
	if c.open {
		c.open = false
		done := c.placement.Done
		c.placement = lnd.Placement{}
		done.Received(&c.m, failure)
	}
	return nil
}

// failPlacement completes the message at hand with an error.
func (c *conn) failPlacement(cause error) {
	p := c.placement
	c.placement = lnd.Placement{}
	c.failReceive(p, cause)
}

func (c *conn) failReceive(p lnd.Placement, cause error) {
	if p.Done == nil {
		return
	}
	if cause == nil {
		cause = syscall.EIO
	}
	p.Done.Received(&c.m, messageError("receive", c.peer.id.NID, lnd.StatusRemoteError, cause))
}
