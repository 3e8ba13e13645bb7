package transport

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrMessengerClosed is returned by methods of a Messenger that is closed. It matches ESHUTDOWN.
var ErrMessengerClosed = fmt.Errorf("transport: the messenger is closed: %w", syscall.ESHUTDOWN)

// Message is a message that a Messenger has received.
type Message struct {
	// From is the address of the sender, to which an answer can be sent.
	From Address
	// Data is a copy of the message's bytes. It belongs to the program.
	Data []byte
}

// MessengerConfig holds the parameters of a Messenger. The zero value is usable.
type MessengerConfig struct {
	// MessageSize is the length of the longest message that can be sent or received, in bytes, at most
	// Limits.BufferSize. 0 means 4096.
	MessageSize int
	// Unread is the maximum number of messages that have arrived and that the program has not received yet,
	// at most MostMessages. 0 means 64. A further message is lost, and its sender gets no error unless the
	// Core is that of package mem.
	Unread int
	// Sending is the maximum number of messages that are being sent at a time, at most MostMessages. 0 means
	// 16. Further calls of Send wait.
	Sending int
}

// Messenger sends and receives messages at one address. It consists of a TransferMachine and its buffers, for
// programs that need neither bulk data nor control over their memory. OpenMessenger opens a messenger. All
// methods are safe for concurrent use. No method may be called in a callback of a TransferMachine.
//
// As with every TransferMachine, success of Send means only that the message was sent (transport 3.11). It is
// lost if the receiver does not exist or has no free buffer. Messages from one address arrive in the order in
// which they were sent, unless there are several paths between the two nodes.
type Messenger struct {
	size   int
	domain *Domain
	tm     *TransferMachine

	buffers []*Buffer      // all buffers, so that Close can free them
	unused  chan *Buffer   // free buffers for sending
	arrived chan receipt   // messages not yet received; has room for one per receive buffer
	refused chan struct{}  // has a token after a callback has added a buffer to idle
	failed  chan struct{}  // closed when the TM has failed
	closing chan struct{}  // closed when Close begins
	ended   chan struct{}  // closed when Close has ended
	calls   sync.WaitGroup // calls in progress that use the TM or buffers; grows only while mu is held

	mu      sync.Mutex
	closed  bool
	idle    []*Buffer // receive buffers that the TM refused
	failure error     // why the TM failed; set before failed is closed
	err     error     // result of Close; set before ended is closed
}

// receipt is a message that has arrived in a receive buffer.
type receipt struct {
	buffer         *Buffer
	offset, length int
	from           Address
}

// sending is the state of a buffer for sending. It is in the field Data of the buffer.
type sending struct {
	outcome chan error // result of the operation; has room for one
	phase   atomic.Uint32
}

// Phases of a message that is sent. They determine which goroutine returns the buffer to Messenger.unused:
// Send, or the callback if Send has returned before because its context ended.
const (
	sendAwaited   uint32 = iota // Send waits for the result and returns the buffer
	sendOver                    // the result was passed to Send, which returns the buffer
	sendAbandoned               // Send has returned, so the callback returns the buffer
)

// OpenMessenger opens a messenger with the default configuration; see MessengerConfig.Open.
func OpenMessenger(ctx context.Context, c Core, address string) (*Messenger, error) {
	return MessengerConfig{}.Open(ctx, c, address)
}

// Open opens a messenger at an address, nid:pid:portal:tmid, where tmid may be * (see TransferMachine.Start).
// It returns when peers can send to the messenger, or when ctx ends. Close closes the messenger. Open returns
// EINVAL if the configuration or the address is invalid, EFBIG if MessageSize is too large, and the errors of
// NewDomain, Domain.Buffer and Domain.Open.
func (c MessengerConfig) Open(ctx context.Context, core Core, address string) (*Messenger, error) {
	for _, f := range []struct {
		name        string
		field       *int
		usual, most int
	}{
		{"MessageSize", &c.MessageSize, 4096, math.MaxInt}, {"Unread", &c.Unread, 64, MostMessages},
		{"Sending", &c.Sending, 16, MostMessages},
	} {
		if *f.field < 0 || *f.field > f.most {
			return nil, fmt.Errorf("transport: open messenger: %s %d is not within 0 to %d: %w", f.name, *f.field, f.most, syscall.EINVAL)
		}
		if *f.field == 0 {
			*f.field = f.usual
		}
	}
	d, err := NewDomain(ctx, core)
	if err != nil {
		return nil, err
	}
	m := &Messenger{
		size: c.MessageSize, domain: d,
		unused: make(chan *Buffer, c.Sending), arrived: make(chan receipt, c.Unread),
		refused: make(chan struct{}, 1), failed: make(chan struct{}), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := m.open(ctx, &c, address); err != nil {
		_ = m.Close() // the caller gets err, the reason
		return nil, err
	}
	return m, nil
}

func (m *Messenger) open(ctx context.Context, c *MessengerConfig, address string) error {
	callbacks := &Callbacks{MsgRecv: m.received, MsgSend: sent(m.unused)}
	for range c.Unread + c.Sending {
		b, err := m.domain.Buffer(ctx, c.MessageSize)
		if err != nil {
			return err
		}
		b.Callbacks = callbacks
		m.buffers = append(m.buffers, b)
	}
	for _, b := range m.buffers[c.Unread:] {
		b.Queue, b.Data = MsgSend, &sending{outcome: make(chan error, 1)}
		m.unused <- b
	}
	var err error
	if m.tm, err = m.domain.Open(ctx, address, m.tmEvent); err != nil {
		return err
	}
	receive := m.buffers[:c.Unread]
	for _, b := range receive {
		b.Queue, b.MinReceiveSize, b.MaxMessages = MsgRecv, b.Size(), 1
	}
	_, err = m.tm.AddAll(receive...)
	return err
}

// tmEvent is the callback for events of the TM. It records that the TM has failed.
func (m *Messenger) tmEvent(e *TMEvent) {
	if e.Type == TMStateChange && e.Next == StateFailed {
		m.mu.Lock()
		m.failure = fmt.Errorf("transport: messenger: %w", e.Err)
		m.mu.Unlock()
		close(m.failed)
	}
}

// received is the callback of the receive queue. A receive buffer holds one message. After a message without
// a usable sender, received adds the buffer to the queue again. After other errors, or if that fails, it puts
// the buffer into idle, and Receive adds it later. If the operation was cancelled, the TM is ending, and the
// buffer is not needed any more.
func (m *Messenger) received(e *BufferEvent) {
	switch {
	case e.Err == nil:
		m.arrived <- receipt{e.Buffer, e.Offset, e.Length, e.EndPoint.Address()}
		return
	case errors.Is(e.Err, syscall.ECANCELED):
		return
	case errors.Is(e.Err, syscall.EPROTO) && e.Add(e.Buffer) == nil: // the sender was not a TM
		return
	}
	// The Core has refused the buffer, and would probably refuse it again if it were added now.
	m.mu.Lock()
	m.idle = append(m.idle, e.Buffer)
	m.mu.Unlock()
	select {
	case m.refused <- struct{}{}:
	default: // Receive has not removed the previous token yet
	}
}

// sent returns the callback of the send queue. The callback passes the result to Send or, if Send has
// returned already, puts the buffer into unused.
func sent(unused chan<- *Buffer) func(e *BufferEvent) {
	return func(e *BufferEvent) {
		s := e.Buffer.Data.(*sending)
		if s.phase.CompareAndSwap(sendAwaited, sendOver) {
			s.outcome <- e.Err
		} else {
			unused <- e.Buffer
		}
	}
}

// Addr returns the address of the messenger. It contains the TM number that was assigned.
func (m *Messenger) Addr() Address { return m.tm.Self().Address() }

// begin registers a call that uses the TM, so that Close waits for it. If begin returns nil, the caller must
// call calls.Done at the end. It returns ErrMessengerClosed after Close.
func (m *Messenger) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrMessengerClosed
	}
	m.calls.Add(1)
	return nil
}

// cause returns the error that a method should return instead of err: ErrMessengerClosed or the failure of
// the TM if they are the reason, and otherwise err. It returns nil if err is nil.
func (m *Messenger) cause(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case m.closed:
		return ErrMessengerClosed
	case m.failure != nil:
		return m.failure
	}
	return err
}

// Send sends a copy of data to an address. It waits until a buffer for sending is free, and then until the
// message was sent or has failed. If ctx ends, Send returns earlier, but the message may still arrive.
//
// Send returns EINVAL if data is empty or the address is invalid; EMSGSIZE if data is longer than
// MessengerConfig.MessageSize; ErrMessengerClosed; ctx's error, which also matches ECANCELED or ETIMEDOUT;
// EPIPE or ECANCELED if the Core is gone; and errors of the network, such as EHOSTUNREACH (transport 3.16).
func (m *Messenger) Send(ctx context.Context, to Address, data []byte) error {
	switch {
	case len(data) == 0:
		return fmt.Errorf("transport: send to %v: the message is empty: %w", to, syscall.EINVAL)
	case len(data) > m.size:
		return fmt.Errorf("transport: send to %v: %d bytes are more than the maximum of %d: %w", to, len(data), m.size, syscall.EMSGSIZE)
	}
	if err := m.begin(); err != nil {
		return err
	}
	defer m.calls.Done()
	if ctx.Err() != nil {
		return sendEnded(ctx, to)
	}
	select {
	case b := <-m.unused:
		return m.cause(m.send(ctx, b, to, data))
	case <-ctx.Done():
		return sendEnded(ctx, to)
	case <-m.failed:
		return m.cause(syscall.EPIPE)
	case <-m.closing:
		return ErrMessengerClosed
	}
}

func sendEnded(ctx context.Context, to Address) error {
	return withErrno(fmt.Errorf("transport: send to %v: %w", to, ctx.Err()))
}

// send sends data in buffer b. It returns b to m.unused, unless ctx ends first; then the callback does that.
func (m *Messenger) send(ctx context.Context, b *Buffer, to Address, data []byte) error {
	e, err := m.tm.EndPointAt(to)
	if err != nil {
		m.unused <- b
		return err
	}
	s := b.Data.(*sending)
	s.phase.Store(sendAwaited)
	b.Length, b.EndPoint = b.CopyIn(0, data), e
	err = m.tm.Add(b)
	e.Put()
	if err != nil {
		m.unused <- b
		return err
	}
	select {
	case err = <-s.outcome:
	case <-ctx.Done():
		m.tm.Cancel(b) // must precede the change to sendAbandoned, after which the callback may give b to another Send
		if s.phase.CompareAndSwap(sendAwaited, sendAbandoned) {
			return sendEnded(ctx, to)
		}
		err = <-s.outcome
	}
	m.unused <- b
	if err != nil {
		return fmt.Errorf("transport: send to %v: %w", to, err)
	}
	return nil
}

// Receive returns the next message. It blocks until a message has arrived, ctx ends, or the messenger is
// closed or fails. It returns messages that have arrived even if ctx has ended or the messenger has failed.
// The error is ErrMessengerClosed; ctx's error, which also matches ECANCELED or ETIMEDOUT; or EPIPE if the
// Core is gone.
func (m *Messenger) Receive(ctx context.Context) (Message, error) {
	if err := m.begin(); err != nil {
		return Message{}, err
	}
	defer m.calls.Done()
	select {
	case r := <-m.arrived:
		return m.unpack(&r), nil
	default:
	}
	for {
		var again <-chan time.Time
		if !m.queue() {
			again = time.After(queuePause)
		}
		select {
		case r := <-m.arrived:
			return m.unpack(&r), nil
		case <-again:
		case <-m.refused:
		case <-ctx.Done():
			return Message{}, withErrno(fmt.Errorf("transport: receive: %w", ctx.Err()))
		case <-m.failed:
			select {
			case r := <-m.arrived: // arrived before the TM failed
				return m.unpack(&r), nil
			default:
				return Message{}, m.cause(syscall.EPIPE)
			}
		case <-m.closing:
			return Message{}, ErrMessengerClosed
		}
	}
}

// unpack copies a message out of its receive buffer, and adds the buffer to the receive queue again.
func (m *Messenger) unpack(r *receipt) Message {
	data := make([]byte, r.length)
	r.buffer.CopyOut(r.offset, data)
	m.queue(r.buffer)
	return Message{From: r.from, Data: data}
}

// queuePause is the time after which Receive again adds buffers that the TM refused.
const queuePause = 100 * time.Millisecond

// queue adds buffers, and all buffers in idle, to the receive queue. If the TM refuses buffers, queue puts
// them into idle and returns false.
func (m *Messenger) queue(buffers ...*Buffer) bool {
	m.mu.Lock()
	buffers = append(buffers, m.idle...)
	m.idle = nil
	m.mu.Unlock()
	if len(buffers) == 0 {
		return true
	}
	n, err := m.tm.AddAll(buffers...)
	if err == nil {
		return true
	}
	m.mu.Lock()
	m.idle = append(m.idle, buffers[n:]...)
	m.mu.Unlock()
	return false
}

// Messages returns an iterator over the messages that arrive. Each step blocks like Receive. The iterator
// ends without an error when the messenger is closed. If Receive returns another error, this error is the
// last element.
func (m *Messenger) Messages(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for {
			msg, err := m.Receive(ctx)
			if errors.Is(err, ErrMessengerClosed) || !yield(msg, err) || err != nil {
				return
			}
		}
	}
}

// Close closes the messenger and releases its address and memory. Messages that were not received are
// discarded. Calls of other methods that are in progress return ErrMessengerClosed. Close blocks until they
// have returned and the network no longer uses the memory. Further calls of Close wait as well, and return
// the same result: nil, or an error of the Core.
func (m *Messenger) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		<-m.ended
		return m.err
	}
	m.closed = true
	m.mu.Unlock()
	close(m.closing)
	var errs []error
	if m.tm != nil {
		_ = m.tm.Abort() // returns EINVAL if the TM has failed
		m.calls.Wait()
		errs = append(errs, m.tm.Shutdown(context.Background()))
	}
	for _, b := range m.buffers {
		errs = append(errs, m.domain.Free(b))
	}
	m.err = errors.Join(append(errs, m.domain.Close())...)
	close(m.ended)
	return m.err
}
