package tmping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tmping/message"
	"github.com/lnetd/lnetd/transport"
)

// waitingMax is the maximum number of requests that wait for a buffer. Further requests are dropped and
// counted as errors.
const waitingMax = 1024

// Server answers pings, and reads or writes the bulk buffers that clients announce. Create it with
// Session.StartServer. Its methods are safe for concurrent use.
type Server struct {
	config    Config
	domain    *transport.Domain
	loop      *tmhost.Loop
	callbacks transport.Callbacks
	buffers   []*transport.Buffer
	scratch   []byte // for the content of messages and bulk in callbacks
	onError   func(error)

	receive int               // number of receive buffers
	changed transport.Channel // signalled when a buffer becomes free

	mu      sync.Mutex // guards the rest
	free    []*transport.Buffer
	waiting []request
	stopped bool
	errors  uint64
	queued  uint64 // receive buffers in the queue at the last Reset
}

// request is a copy of a client's request.
type request struct {
	kind byte
	from *transport.EndPoint // the sender of a message.Text; holds a reference
	body []byte              // the text or the descriptor
	size int
}

// startServer starts a server at an address. It calls onError with each error.
func startServer(ctx context.Context, h *tmhost.Host, address string, c Config, complain func(error)) (*Server, error) {
	s := &Server{config: c, domain: h.Domain, onError: complain}
	s.callbacks = transport.Callbacks{
		transport.MsgRecv:        s.received,
		transport.MsgSend:        s.done,
		transport.ActiveBulkSend: s.done,
		transport.ActiveBulkRecv: s.fetched,
	}
	var err error
	if s.loop, err = tmhost.Start(ctx, h.Domain, address, c.Delivery, nil); err != nil {
		return nil, fmt.Errorf("server at %s: %w", address, err)
	}
	err = s.addBuffers(ctx, h.Events)
	if err == nil && h.Through() {
		err = s.awaitBuffers(ctx)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), c.MessageTime)
		defer cancel()
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// addBuffers creates the buffers and adds the receive buffers. If events is not 0, it limits the
// messages per receive buffer so that there is room for their events.
func (s *Server) addBuffers(ctx context.Context, events int) error {
	receive, minSize, messages := s.config.receive(s.domain.Limits())
	if events > 0 && s.config.MaxMessages <= 0 {
		messages = min(messages, max(1, (events-s.config.Buffers)/receive))
	}
	s.receive = receive
	s.scratch = make([]byte, s.domain.Limits().BufferSize)
	for k := range s.config.Buffers {
		b, err := s.domain.Buffer(ctx, s.config.bufferSize())
		if err != nil {
			return err
		}
		s.buffers = append(s.buffers, b)
		b.Callbacks = &s.callbacks
		if k >= receive {
			s.free = append(s.free, b) // used from the first message on
			continue
		}
		b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, minSize, messages
	}
	_, err := s.loop.TM.AddAll(s.buffers[:receive]...)
	return err
}

// awaitBuffers waits until lnetd has processed the addition of the receive buffers. Otherwise a client
// that starts now could get no answer. AddAll waits for that too, but only for a short time, and not at
// all if lnetd does not report its progress (transport 9.12). awaitBuffers adds another buffer and
// cancels it immediately: its final event comes after lnetd has processed the earlier buffers. It then
// resets the counters of that buffer's queue.
func (s *Server) awaitBuffers(ctx context.Context) error {
	b, ended := s.free[0], make(chan struct{})
	var callbacks transport.Callbacks
	callbacks[transport.PassiveBulkRecv] = func(*transport.BufferEvent) { close(ended) }
	b.Queue, b.Callbacks = transport.PassiveBulkRecv, &callbacks
	if err := s.loop.TM.Add(b); err != nil {
		return err
	}
	s.loop.TM.Cancel(b)
	select {
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.Callbacks = &s.callbacks
	s.loop.TM.ResetStats(transport.PassiveBulkRecv)
	return nil
}

// Address returns the address of the server.
func (s *Server) Address() transport.Address { return s.loop.Address() }

// awaitIdle waits until the server has finished all requests or ctx is done. It may be busy although all
// clients have their results, because its final events may come later.
func (s *Server) awaitIdle(ctx context.Context) {
	for {
		changed := s.changed.Wait()
		s.mu.Lock()
		busy := len(s.waiting) > 0 || len(s.free) < len(s.buffers)-s.receive
		s.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Close drops waiting requests, stops the server and frees its buffers.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, r := range waiting {
		r.release()
	}
	if err := s.loop.Close(ctx); err != nil {
		return err
	}
	return freeAll(s.domain, s.buffers)
}

func freeAll(d *transport.Domain, buffers []*transport.Buffer) error {
	var errs []error
	for _, b := range buffers {
		errs = append(errs, d.Free(b))
	}
	return errors.Join(errs...)
}

func (r *request) release() {
	if r.from != nil {
		r.from.Put()
	}
}

// fail counts an error of the server and reports it.
func (s *Server) fail(format string, args ...any) {
	s.mu.Lock()
	s.errors++
	s.mu.Unlock()
	s.onError(fmt.Errorf("server: "+format, args...))
}

// ending reports whether an event has an error only because Close cancelled its buffer.
func (s *Server) ending(e *transport.BufferEvent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped && errors.Is(e.Err, syscall.ECANCELED)
}

// received is the callback for receive buffers. It queues requests and makes the loop serve them.
func (s *Server) received(e *transport.BufferEvent) {
	if s.ending(e) {
		return
	}
	if e.Err != nil {
		s.fail("receive: %w", e.Err)
	} else {
		s.accept(e)
	}
	if !e.Final {
		return
	}
	if err := s.loop.TM.Add(e.Buffer); err != nil && s.loop.TM.State() == transport.StateStarted {
		s.fail("receive: %w", err)
	}
}

func (s *Server) accept(e *transport.BufferEvent) {
	m, err := message.Parse(s.scratch[:e.CopyTo(s.scratch)])
	if err != nil {
		s.fail("invalid message of %d bytes from %s: %w", e.Length, e.EndPoint, err)
		return
	}
	if limit := s.domain.Limits().BufferSize; m.Size > limit {
		s.fail("the request of %s is for %d bytes, but a buffer has at most %d", e.EndPoint, m.Size, limit)
		return
	}
	r := request{kind: m.Kind, body: bytes.Clone(m.Descriptor), size: m.Size}
	if m.Kind == message.Text {
		r.body, r.from = bytes.Clone(m.Text), e.EndPoint.Get()
	}
	s.mu.Lock()
	stopped, full := s.stopped, len(s.waiting) >= waitingMax
	if !stopped && !full {
		s.waiting = append(s.waiting, r)
	}
	s.mu.Unlock()
	switch {
	case stopped:
		r.release()
	case full:
		r.release()
		s.fail("dropped the request of %s, because %d requests are already waiting for a buffer", e.EndPoint, waitingMax)
	default:
		s.loop.Post(s.serve)
	}
}

// serve starts the queued requests as long as buffers are free. It is called by the loop.
func (s *Server) serve() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 || len(s.free) == 0 {
			s.mu.Unlock()
			return
		}
		r, b := s.waiting[0], s.free[len(s.free)-1]
		s.waiting, s.free = s.waiting[1:], s.free[:len(s.free)-1]
		s.mu.Unlock()
		if r.kind == message.Text {
			s.answer(b, r)
			continue
		}
		if s.config.Delay == 0 {
			s.move(b, r)
			continue
		}
		time.AfterFunc(s.config.Delay, func() { s.loop.Post(func() { s.move(b, r) }) })
	}
}

// answer answers a ping with buffer b.
func (s *Server) answer(b *transport.Buffer, r request) {
	defer r.release()
	text := message.AppendText(nil, string(r.body)+message.PongText)
	b, err := s.grow(b, len(text))
	if err != nil {
		s.fail("create a buffer of %d bytes: %w", len(text), err)
		s.release(b)
		return
	}
	b.Queue, b.EndPoint, b.Length = transport.MsgSend, r.from, b.CopyIn(0, text)
	b.Deadline = time.Now().Add(s.config.MessageTime)
	s.add(b)
}

// move starts to read or write the client's bulk buffer, with buffer b.
func (s *Server) move(b *transport.Buffer, r request) {
	b, err := s.grow(b, r.size)
	if err != nil {
		s.fail("create a buffer of %d bytes: %w", r.size, err)
		s.release(b)
		return
	}
	b.EndPoint, b.Descriptor, b.Data = nil, r.body, r.size
	b.Queue = transport.ActiveBulkRecv
	if r.kind == message.Recv {
		content := message.AppendText(nil, message.ActiveText)
		if r.size > 0 {
			content = make([]byte, r.size)
			message.PutPattern(content)
		}
		b.Queue, b.Length = transport.ActiveBulkSend, b.CopyIn(0, content)
	}
	b.Deadline = time.Now().Add(s.config.BulkTime)
	s.add(b)
}

// grow returns b if it has at least size bytes. Otherwise it frees b and returns a new buffer of size
// bytes. If it returns an error, it also returns b, which the caller must release. It registers and
// frees memory and may block for config.BulkTime, so it must be called by the loop and not by callbacks.
func (s *Server) grow(b *transport.Buffer, size int) (*transport.Buffer, error) {
	if b.Size() >= size {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.BulkTime)
	defer cancel()
	larger, err := s.domain.Buffer(ctx, size)
	if err != nil {
		return b, err
	}
	if err := s.domain.Free(b); err != nil {
		return b, errors.Join(err, s.domain.Free(larger))
	}
	larger.Callbacks = &s.callbacks
	s.mu.Lock()
	s.buffers[slices.Index(s.buffers, b)] = larger
	s.mu.Unlock()
	return larger, nil
}

// add adds a buffer to its queue. If that fails, it counts an error and releases the buffer.
func (s *Server) add(b *transport.Buffer) {
	if err := s.loop.TM.Add(b); err != nil {
		s.fail("add a buffer: %w", err)
		s.release(b)
	}
}

// release frees a buffer, and makes the loop serve waiting requests.
func (s *Server) release(b *transport.Buffer) {
	b.EndPoint = nil
	s.mu.Lock()
	s.free = append(s.free, b)
	more := len(s.waiting) > 0
	s.mu.Unlock()
	s.changed.Signal()
	if more {
		s.loop.Post(s.serve)
	}
}

// done is the callback for answers and for bulk written to a client. It frees the buffer.
func (s *Server) done(e *transport.BufferEvent) {
	if e.Err != nil && !s.ending(e) {
		s.fail("%s: %w", e.Queue, e.Err)
	}
	s.release(e.Buffer)
}

// fetched is the callback for bulk read from a client. It checks the content and frees the buffer.
func (s *Server) fetched(e *transport.BufferEvent) {
	if e.Err == nil {
		size, _ := e.Buffer.Data.(int)
		if err := message.CheckBulk(s.scratch[:e.CopyTo(s.scratch)], size, message.PassiveText); err != nil {
			s.fail("the fetched bulk data is wrong: %w", err)
		}
	}
	s.done(e)
}
