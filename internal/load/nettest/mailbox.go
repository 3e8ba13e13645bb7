package nettest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/transport"
)

const (
	// Portal is the portal of test nodes and consoles (transport 6.2).
	Portal = 42
	// sendTime is the time limit for sending a command.
	sendTime = 5 * time.Second
	// mailboxBuffers is the number of receive buffers of a mailbox, and of send buffers of a node's
	// mailbox.
	mailboxBuffers = 8
)

// mailbox is a transfer machine that sends and receives commands. Its methods are safe for concurrent
// use.
type mailbox struct {
	domain    *transport.Domain
	loop      *tmhost.Loop
	callbacks transport.Callbacks
	buffers   []*transport.Buffer
	free      chan *transport.Buffer
	// onReceived is called by the worker of the transfer machine with each message. from is valid only
	// until it returns.
	onReceived func(b []byte, from *transport.EndPoint)
	// onSent is called for each message that was sent or has failed, with the tag given to send and the
	// error. It may be nil.
	onSent func(tag any, err error)
}

func openMailbox(
	ctx context.Context, d *transport.Domain, address string, sends int,
	heard func(b []byte, from *transport.EndPoint), left func(tag any, err error),
) (*mailbox, error) {
	m := &mailbox{domain: d, onReceived: heard, onSent: left, free: make(chan *transport.Buffer, sends)}
	m.callbacks = transport.Callbacks{transport.MsgRecv: m.received, transport.MsgSend: m.sent}
	var err error
	if m.loop, err = tmhost.Start(ctx, d, address, tmhost.Async, nil); err != nil {
		return nil, fmt.Errorf("open the end point %s for commands: %w", address, err)
	}
	if err := m.addBuffers(ctx, sends); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return nil, errors.Join(err, m.close(ctx))
	}
	return m, nil
}

func (m *mailbox) addBuffers(ctx context.Context, sends int) error {
	for k := range mailboxBuffers + sends {
		b, err := m.domain.Buffer(ctx, message.CommandSize)
		if err != nil {
			return err
		}
		m.buffers = append(m.buffers, b)
		b.Callbacks = &m.callbacks
		if k >= mailboxBuffers {
			b.Queue = transport.MsgSend
			m.free <- b
			continue
		}
		b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, message.CommandSize, 1
		if err := m.loop.TM.Add(b); err != nil {
			return err
		}
	}
	return nil
}

func (m *mailbox) close(ctx context.Context) error {
	if err := m.loop.Close(ctx); err != nil {
		return err
	}
	var errs []error
	for _, b := range m.buffers {
		errs = append(errs, m.domain.Free(b))
	}
	return errors.Join(errs...)
}

func (m *mailbox) received(e *transport.BufferEvent) {
	if e.Err == nil {
		b := make([]byte, e.Length)
		m.onReceived(b[:e.CopyTo(b)], e.EndPoint)
	}
	if e.Final && m.loop.TM.State() == transport.StateStarted {
		_ = m.loop.TM.Add(e.Buffer) // fails only while the machine is being stopped
	}
}

// send starts to send a command to an end point. onSent is called with tag when it was sent. send blocks
// until a buffer is free or ctx is done. No buffer may be free although all answers have arrived,
// because the event for a sent command may come after the answer.
func (m *mailbox) send(ctx context.Context, c *message.Command, to *transport.EndPoint, tag any) error {
	text, err := c.Append(nil)
	if err != nil {
		return err
	}
	var b *transport.Buffer
	select {
	case b = <-m.free:
	case <-ctx.Done():
		return fmt.Errorf("%d commands are still being sent: %w", cap(m.free), context.Cause(ctx))
	}
	b.Length, b.EndPoint, b.Data = b.CopyIn(0, text), to, tag
	b.Deadline = time.Now().Add(sendTime)
	if err := m.loop.TM.Add(b); err != nil {
		b.EndPoint = nil
		m.free <- b
		return err
	}
	return nil
}

func (m *mailbox) sent(e *transport.BufferEvent) {
	tag := e.Buffer.Data
	e.Buffer.EndPoint, e.Buffer.Data = nil, nil
	m.free <- e.Buffer
	if m.onSent != nil {
		m.onSent(tag, e.Err)
	}
}
