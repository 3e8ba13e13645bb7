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

// The placing state of an arrived message, between upcall and placement. The side that changes it last
// acts: the reader or the caller of Receive.
const (
	placingUpcall    uint32 = iota // the upcall is running, or the reader has not checked yet
	placingWait                    // the reader waits for a placement
	placingDone                    // the placement has been given
	placingWithdrawn               // the connection died; the reader is calling Withdrawn
	placingDead                    // Withdrawn has returned; a later placement fails
)

// read reads from the connection until it ends.
func (c *conn) read() {
	defer c.peer.i.Group.Done()
	c.poll.stream, _ = c.stream.(Pollable)
	err := c.readAlone()
	if err == nil {
		err = c.readShared()
	}
	c.peer.lastReceiver.CompareAndSwap(c, nil)
	if c.open {
		// The connection ended within a payload.
		c.open = false
		c.failPlacement(err)
	}
	c.rx.Close()
	c.peer.fail(c, err)
}

// readAlone reads until the connection is to be shared. Then it returns nil.
func (c *conn) readAlone() error {
	for !c.share() {
		n, err := c.stream.Read(c.rx.Buffers())
		if err := c.digest(n, err); err != nil {
			return err
		}
	}
	return nil
}

// digest processes the result of a read: n bytes, or err. An error that it returns ends the connection.
func (c *conn) digest(n int, err error) error {
	switch {
	case err == nil:
		c.received.Add(uint64(n))
		c.rx.Filled(n)
		c.noteReceived()
		return c.work(nil)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.releaseBuffer()
	case errors.Is(err, syscall.EFAULT) && c.rx.Abandon():
		return c.arrived(c.faulty(err))
	}
	return c.readError(err)
}

// releaseBuffer releases the large buffer of an idle connection. The reaper has woken the reader for this.
func (c *conn) releaseBuffer() error {
	if err := c.stream.SetReadDeadline(time.Time{}); err != nil {
		return c.readError(err)
	}
	c.rx.Rest()
	c.large.Store(false)
	return nil
}

// work processes received bytes. If first is not nil, it is called first, to continue with the current
// message.
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

// consumeCorked is consume, with the messages that it causes sent in batches.
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

// readError returns the cause of the end of a stream (socklnd 13).
func (c *conn) readError(err error) error {
	switch {
	case errors.Is(err, io.EOF) && c.rx.Partial():
		c.peer.i.Count.ProtocolErrors.Add(1)
		return errTruncated
	case errors.Is(err, io.EOF):
		return errEOF
	}
	if cause := c.closeCause(); cause != nil {
		return cause
	}
	return err
}

// consume processes the bytes that have been read.
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

// next calls the receiver's Next. It returns the memory fault, if the payload's memory caused one.
func (c *conn) next() (event protocol.Event, fault *memory.Fault, err error) {
	if !c.open { // no payload is being stored
		event, err = c.rx.Next()
		return event, nil, err
	}
	fault = memory.Guard(func() { event, err = c.rx.Next() })
	return event, fault, err
}

// faulty returns the error for a message whose local payload memory is no longer accessible. Neither
// the peer nor the network is at fault, so the connection stays open.
func (c *conn) faulty(cause error) error {
	return c.peer.i.Error("receive", c.peer.ID.NID, lnd.StatusLocalError, cause)
}

func (c *conn) protocolError(err error) error {
	count := &c.peer.i.Count.ProtocolErrors
	var sum *protocol.ChecksumError
	if errors.As(err, &sum) {
		count = &c.peer.i.counters.checksumErrors
	}
	count.Add(1)
	return fmt.Errorf("%w: %w", lnd.ErrProtocol, err)
}

// acknowledged checks the cookies in the current frame. This driver never requests an acknowledgement,
// so any cookie is an error (socklnd 10.3).
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

// arrive passes the header to the node and applies the placement. If necessary, the reader waits for
// the placement, which blocks only this connection.
func (c *conn) arrive() error {
	if c.poll.answersOnly && !isAnswer(&c.m.Header) {
		return errRequest
	}
	p := c.peer
	if p.unprivileged() {
		// Only the connection identifies the peer (socklnd 5.2).
		c.m.Header.Src, c.m.Header.SrcPID = p.ID.NID, p.ID.PID
	}
	c.placing.Store(placingUpcall)
	if err := p.i.Upper.Arrived(&c.m); err != nil {
		return c.protocolError(err)
	}
	if !c.placing.CompareAndSwap(placingUpcall, placingWait) {
		return c.receivePayload()
	}
	if c.poll.byCaller {
		return errUnplaced
	}
	return c.place()
}

// place waits for the placement of the current message, and then starts receiving its payload.
func (c *conn) place() error {
	c.poll.end() // the wait may be long
	if err := c.await(); err != nil {
		return err
	}
	return c.receivePayload()
}

// await waits for a placement. Before, it sends what has been queued meanwhile. While it waits, the
// receive timer is stopped, and the reaper checks for the end of the stream, since nothing reads it (it
// sees placingWait). If the connection dies first, the arrival is withdrawn. A placement given during
// the Withdrawn upcall fails here after the upcall, so that m stays valid during the upcall.
func (c *conn) await() error {
	c.peer.uncork()
	defer c.peer.cork()
	select {
	case <-c.placed:
		return nil
	case <-c.closed:
	}
	cause := c.closeCause()
	if c.placing.CompareAndSwap(placingWait, placingWithdrawn) {
		c.peer.i.Upper.Withdrawn(&c.m)
		if c.placing.CompareAndSwap(placingWithdrawn, placingDead) {
			return cause
		}
	}
	c.failPlacement(cause)
	return cause
}

// receive implements Interface.Receive.
func (c *conn) receive(p lnd.Placement) {
	if c.placing.Load() == placingDead {
		c.failReceive(p, c.closeCause())
		return
	}
	c.placement = p
	switch c.placing.Swap(placingDone) {
	case placingWait:
		c.placed <- struct{}{}
	case placingDead:
		c.failPlacement(c.closeCause())
	}
}

// receivePayload starts receiving the payload of the current message, which has its placement.
func (c *conn) receivePayload() error {
	c.pieces = c.placement.Memory.AppendBuffers(c.pieces[:0])
	if err := c.rx.Place(c.pieces); err != nil {
		c.failPlacement(err)
		return err
	}
	clear(c.pieces)
	c.open = c.placement.Done != nil
	return nil
}

// arrived completes the current message: the requested part of its payload is in place or, if failure
// is not nil, cannot be stored. It acknowledges a zero-copy request before the rest is skipped (socklnd
// 10.2).
func (c *conn) arrived(failure error) error {
	if request := c.rx.Frame().Request; request != 0 {
		routed := c.m.Header.Src != c.peer.ID.NID
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

// failPlacement completes the current message with an error.
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
	p.Done.Received(&c.m, c.peer.i.Error("receive", c.peer.ID.NID, lnd.StatusRemoteError, cause))
}
