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

// The states of an arrived message between the upcall Arrived and its placement (conn.placing). The reader and
// the caller of Receive change the state atomically. Each learns from the former state whether the other has
// come first, and then does what is left to do: the reader receives the payload, and the caller of Receive
// wakes the reader or completes the message.
const (
	placingUpcall    uint32 = iota // the upcall is running, or the reader has not checked yet
	placingWait                    // the reader waits for a placement
	placingDone                    // Receive has given the placement
	placingWithdrawn               // the connection died; the reader is calling Withdrawn
	placingDead                    // Withdrawn has returned; a later call of Receive completes the message with an error
)

// read is the reader: a goroutine that reads the connection until it ends, and then closes it.
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

// readAlone reads the connection until callers of Poll may share it. Then it returns nil. An error ends the
// connection.
func (c *conn) readAlone() error {
	for !c.share() {
		n, err := c.stream.Read(c.rx.Buffers())
		c.waited = c.poll.stream != nil && c.poll.stream.Waited()
		if err := c.digest(n, err); err != nil {
			return err
		}
	}
	return nil
}

// digest processes the result of a read: n bytes if err is nil, or err. It returns an error if the connection
// has to end.
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

// releaseBuffer releases the large buffer of an idle connection, after the reaper has woken the reader for
// this. It also removes the deadline that woke the reader.
func (c *conn) releaseBuffer() error {
	if err := c.stream.SetReadDeadline(time.Time{}); err != nil {
		return c.readError(err)
	}
	c.rx.Rest()
	c.large.Store(false)
	return nil
}

// work processes the received bytes. If first is not nil, work calls it before, to continue with the current
// message. An error ends the connection.
func (c *conn) work(first func() error) error {
	// cork uses the time. It is not measured for short batches, which are not divided.
	var began time.Time
	timed := c.waited && c.arrivals > minCorked
	if timed {
		began = time.Now()
	}
	err := c.consumeCorked(first)
	if timed {
		c.took = time.Since(began)
	}
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

// consumeCorked calls first, if it is not nil, and consume. Meanwhile, messages that handlers send to the peer
// are queued, so that they are written in batches.
func (c *conn) consumeCorked(first func() error) error {
	c.cork()
	defer c.uncork()
	if first != nil {
		if err := first(); err != nil {
			return err
		}
	}
	return c.consume()
}

// readError returns the cause with which the connection ends after a read has failed with err (socklnd 13). If
// the connection was closed by this node, this is the cause of that.
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

// consume processes the complete frames, headers and payloads among the bytes that have been read. An error
// ends the connection.
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

// next returns the receiver's next event. Storing a payload may access memory that a program has taken away;
// next then returns this fault.
func (c *conn) next() (event protocol.Event, fault *memory.Fault, err error) {
	if !c.open || !c.rx.Storing() {
		event, err = c.rx.Next()
		return event, nil, err
	}
	fault = memory.Guard(func() { event, err = c.rx.Next() })
	return event, fault, err
}

// faulty returns the error with which a message completes if the memory for its payload is no longer
// accessible. Neither the peer nor the network is at fault, so the connection stays open.
func (c *conn) faulty(cause error) error {
	return c.peer.i.Error("receive", c.peer.ID.NID, lnd.StatusLocalError, cause)
}

// protocolError counts err as a protocol error or a checksum error, and wraps it in lnd.ErrProtocol.
func (c *conn) protocolError(err error) error {
	count := &c.peer.i.Count.ProtocolErrors
	var sum *protocol.ChecksumError
	if errors.As(err, &sum) {
		count = &c.peer.i.counters.checksumErrors
	}
	count.Add(1)
	return fmt.Errorf("%w: %w", lnd.ErrProtocol, err)
}

// acknowledged checks the cookies in the current frame. A cookie acknowledges a zero-copy request. This driver
// never sends such requests, so any cookie is an error (socklnd 10.3).
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

// arrive passes the header of the current message to the node (Upper.Arrived), and then begins to receive the
// payload. If the node gives the placement later, the reader waits for it, which blocks only this connection. A
// caller of Poll does not wait; it returns errUnplaced.
func (c *conn) arrive() error {
	if c.poll.answersOnly && !isAnswer(&c.m.Header) {
		return errRequest
	}
	p := c.peer
	if p.unprivileged() {
		// The header's source is not trusted; only the connection identifies the peer (socklnd 5.2).
		c.m.Header.Src, c.m.Header.SrcPID = p.ID.NID, p.ID.PID
	}
	c.arrivals++
	c.placing.Store(placingUpcall)
	if err := p.i.Upper.Arrived(&c.m); err != nil {
		return c.protocolError(err)
	}
	if c.placing.Load() == placingDone || !c.placing.CompareAndSwap(placingUpcall, placingWait) {
		return c.receivePayload()
	}
	if c.poll.byCaller {
		return errUnplaced
	}
	return c.place()
}

// place waits until the node has given the placement of the current message, and then begins to receive the
// payload.
func (c *conn) place() error {
	c.poll.end() // stop polling, because the wait may be long
	if err := c.await(); err != nil {
		return err
	}
	return c.receivePayload()
}

// await waits until the node has given the placement of the current message. Before that, it writes the
// messages that have been queued for the end of the batch. While it waits, the receive timeout is stopped, and
// the reaper checks for the end of the stream, because no goroutine reads it.
//
// If the connection dies first, await withdraws the arrival and returns the cause. If Receive is called during
// the upcall Withdrawn, the message is completed with an error only after the upcall has returned, so that m
// stays valid during the upcall.
func (c *conn) await() error {
	c.uncork()
	defer c.cork()
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

// receive implements Interface.Receive for the connection's current message.
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

// receivePayload begins to receive the payload of the current message into its placement.
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

// arrived completes the current message. If failure is nil, the part of the payload that the node wants is in
// place; otherwise it could not be stored. If the peer has requested an acknowledgement of its zero-copy
// message, arrived sends it, even if a rest of the payload has still to be skipped (socklnd 10.2).
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

// failPlacement completes the current message with an error, after its placement has been stored.
func (c *conn) failPlacement(cause error) {
	p := c.placement
	c.placement = lnd.Placement{}
	c.failReceive(p, cause)
}

// failReceive completes the current message, which has the placement p, with an error. If p drops the message,
// it does nothing.
func (c *conn) failReceive(p lnd.Placement, cause error) {
	if p.Done == nil {
		return
	}
	if cause == nil {
		cause = syscall.EIO
	}
	p.Done.Received(&c.m, c.peer.i.Error("receive", c.peer.ID.NID, lnd.StatusRemoteError, cause))
}
