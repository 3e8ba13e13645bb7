package perf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// The addresses and buffers of transfer machines. The passive process has one machine for each way of
// delivering events (tmhost.Delivery).
const (
	tmPortal = 42 // portal of all machines
	// tmEchoes is the TM number of the passive machine for tmhost.Delivery 0. The passive machine for delivery d
	// has the number tmEchoes+d.
	tmEchoes = 10

	// tmMessage is the maximum size of a message in bytes. tmMessages is the maximum number of messages that
	// one receive buffer holds.
	tmMessage  = 256
	tmMessages = 64
	// tmReceive and tmSend are the numbers of receive and send buffers that each machine has for messages.
	tmReceive = 4
	tmSend    = 160
	// tmBulks is the maximum number of bulk transfers that one machine has in flight.
	tmBulks = 8
)

// The first byte of a message is one of these requests. In a request for bulk, the descriptor of a
// passive buffer follows.
const (
	wantEcho  = 'e'
	wantFetch = 'f' // read the passive buffer
	wantFill  = 'g' // write to the passive buffer
)

// machine is a transfer machine with its buffers. Both sides have such machines.
type machine struct {
	domain    *transport.Domain
	loop      *tmhost.Loop
	callbacks transport.Callbacks

	peer *transport.EndPoint // the passive machine; nil in an echo

	mu     sync.Mutex          // held while a callback runs
	sends  []*transport.Buffer // free send buffers
	bulks  []*transport.Buffer // free bulk buffers, 1 MiB each
	all    []*transport.Buffer
	closed bool
}

// tmSite is a Core, and a NID on which its transfer machines run.
type tmSite struct {
	core     transport.Core
	nid      lnet.NID
	domain   *transport.Domain // nil until the first machine is started
	machines []*machine
}

// closeMachines closes the machines and the domain.
func (p *tmSite) closeMachines(ctx context.Context) error {
	var errs []error
	for _, m := range p.machines {
		errs = append(errs, m.close(ctx))
	}
	if p.domain != nil {
		errs = append(errs, p.domain.Close())
	}
	return errors.Join(errs...)
}

// startMachine starts m as a transfer machine with number id, and adds its receive buffers. The
// callbacks are called with m.mu held.
func (p *tmSite) startMachine(ctx context.Context, id int, delivery tmhost.Delivery, callbacks transport.Callbacks, m *machine) error {
	if p.domain == nil {
		d, err := transport.NewDomain(ctx, p.core)
		if err != nil {
			return err
		}
		p.domain = d
	}
	m.domain = p.domain
	for q, f := range callbacks {
		m.callbacks[q] = m.locked(f)
	}
	var err error
	if m.loop, err = tmhost.Start(ctx, m.domain, address(p.nid, id), delivery, nil); err != nil {
		return err
	}
	p.machines = append(p.machines, m)
	return m.addBuffers(ctx)
}

func address(nid lnet.NID, id int) string {
	number := fmt.Sprint(id)
	if id == transport.Dynamic {
		number = "*"
	}
	return fmt.Sprintf("%s:%d:%d:%s", nid, lnet.PIDLustre, tmPortal, number)
}

func (m *machine) locked(f func(e *transport.BufferEvent)) func(e *transport.BufferEvent) {
	if f == nil {
		return nil
	}
	return func(e *transport.BufferEvent) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.closed {
			f(e)
		}
	}
}

func (m *machine) addBuffers(ctx context.Context) error {
	several := func(n, size int) (list []*transport.Buffer, err error) {
		for range n {
			b, err := m.domain.Buffer(ctx, size)
			if err != nil {
				return nil, err
			}
			b.Callbacks = &m.callbacks
			list = append(list, b)
		}
		m.all = append(m.all, list...)
		return list, nil
	}
	receive, err := several(tmReceive, tmMessage*tmMessages)
	if err != nil {
		return err
	}
	for _, b := range receive {
		b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, tmMessage, tmMessages
		if err := m.loop.TM.Add(b); err != nil {
			return err
		}
	}
	if m.sends, err = several(tmSend, tmMessage); err != nil {
		return err
	}
	for _, b := range m.sends {
		b.Queue = transport.MsgSend
	}
	m.bulks, err = several(tmBulks, offeredSize)
	for _, b := range m.bulks {
		writePages(b.Bytes())
	}
	return err
}

func (m *machine) close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	if m.peer != nil {
		m.peer.Put()
	}
	if err := m.loop.Close(ctx); err != nil {
		return err
	}
	var errs []error
	for _, b := range m.all {
		errs = append(errs, m.domain.Free(b))
	}
	return errors.Join(errs...)
}

// removeBuffer removes and returns the last buffer of a list. The list must not be empty.
func removeBuffer(list *[]*transport.Buffer) *transport.Buffer {
	l := *list
	b := l[len(l)-1]
	*list = l[:len(l)-1]
	return b
}

// deliveries are the ways of delivery of events. Both sides of a case use the same way.
var deliveries = []tmhost.Delivery{tmhost.Async, tmhost.Sync, tmhost.Poll}

// echo is the passive side. It sends messages back unchanged, or reads or writes the passive buffer that
// a message announces.
type echo struct {
	machine
	waiting []*transport.Buffer // messages that announce bulk, until a bulk buffer is free
}

// startEchoes starts a passive machine for each of the given ways of delivery. The TM number of the machine
// for delivery d is first+d.
func (p *tmSite) startEchoes(ctx context.Context, first int, deliveries ...tmhost.Delivery) error {
	for _, delivery := range deliveries {
		e := &echo{}
		err := p.startMachine(ctx, first+int(delivery), delivery, transport.Callbacks{
			transport.MsgRecv: e.received, transport.MsgSend: e.sent,
			transport.ActiveBulkRecv: e.moved, transport.ActiveBulkSend: e.moved,
		}, &e.machine)
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *echo) received(ev *transport.BufferEvent) {
	if ev.Err == nil {
		e.answer(ev)
	}
	if ev.Final {
		_ = ev.Add(ev.Buffer) // fails only while the machine is being stopped
	}
}

// answer sends a message back, or starts the bulk transfer that it announces. It does nothing if no send
// buffer is free or Add fails; the active side then times out.
func (e *echo) answer(ev *transport.BufferEvent) {
	if len(e.sends) == 0 {
		return
	}
	b := removeBuffer(&e.sends)
	b.Length = ev.CopyTo(b.Bytes())
	if b.Bytes()[0] == wantEcho {
		b.EndPoint = ev.EndPoint
		if ev.Add(b) != nil {
			e.sends = append(e.sends, b)
		}
		return
	}
	e.waiting = append(e.waiting, b)
	e.serve(ev)
}

// serve starts as many waiting bulk transfers as there are free bulk buffers. The others wait until a
// transfer ends. They can wait because the active side may announce new bulk before this side has the
// final event of the previous transfer.
func (e *echo) serve(ev *transport.BufferEvent) {
	for len(e.waiting) > 0 && len(e.bulks) > 0 {
		b, bulk := removeBuffer(&e.waiting), removeBuffer(&e.bulks)
		bulk.Queue, bulk.Length = transport.ActiveBulkRecv, offeredSize
		if b.Bytes()[0] == wantFill {
			bulk.Queue = transport.ActiveBulkSend
		}
		bulk.Descriptor = b.Bytes()[1:b.Length]
		if ev.Add(bulk) != nil {
			e.bulks = append(e.bulks, bulk)
		}
		e.sends = append(e.sends, b) // the descriptor has been read
	}
}

func (e *echo) sent(ev *transport.BufferEvent) { e.sends = append(e.sends, ev.Buffer) }

func (e *echo) moved(ev *transport.BufferEvent) {
	e.bulks = append(e.bulks, ev.Buffer)
	e.serve(ev)
}

// sender is the active side. It makes the transfers of one exchange after the other.
type sender struct {
	machine
	x                exchange
	laps             *laps
	waitingForBuffer int // number of transfers that wait for a send buffer

	begun, ended int
	done         chan error // receives one result per run
}

// newSender starts an active machine whose peer is the passive machine at server with the same way of
// delivery. first is the argument first of startEchoes for these passive machines.
func (p *tmSite) newSender(ctx context.Context, delivery tmhost.Delivery, server lnet.NID, first int) (*sender, error) {
	s := &sender{done: make(chan error, 1)}
	err := p.startMachine(ctx, transport.Dynamic, delivery, transport.Callbacks{
		transport.MsgRecv: s.received, transport.MsgSend: s.sent,
		transport.PassiveBulkRecv: s.moved, transport.PassiveBulkSend: s.moved,
	}, &s.machine)
	if err != nil {
		return nil, err
	}
	s.peer, err = s.loop.TM.EndPoint(address(server, first+int(delivery)))
	return s, err
}

// run makes the transfers of x and returns the time taken. It records a lap at the end of each.
func (s *sender) run(ctx context.Context, x exchange, l *laps) (time.Duration, error) {
	s.mu.Lock()
	s.x, s.laps, s.begun, s.ended = x, l, 0, 0
	s.mu.Unlock()
	start := time.Now()
	s.loop.Post(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.start()
		for range x.window {
			s.next(s.loop.TM)
		}
	})
	select {
	case err := <-s.done:
		return time.Since(start), err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// adder adds buffers to a queue. It is the transfer machine or, in a callback, the event.
type adder interface {
	Add(b *transport.Buffer) error
}

// next starts another transfer, unless all were started. If no send buffer is free, it does so when one
// is.
func (s *sender) next(a adder) {
	if s.begun >= s.x.n {
		return
	}
	if len(s.sends) == 0 {
		s.waitingForBuffer++
		return
	}
	s.begun++
	b := removeBuffer(&s.sends)
	b.Bytes()[0], b.Length = wantEcho, max(s.x.in, 1)
	if s.x.bulk() {
		if err := s.announce(a, b); err != nil {
			s.end(err)
			return
		}
	}
	b.EndPoint = s.peer
	if err := a.Add(b); err != nil {
		s.end(err)
	}
}

// bulk reports whether the data of an exchange is too large for messages and moved as bulk.
func (x *exchange) bulk() bool { return max(x.in, x.out) > tmMessage }

// announce adds a passive bulk buffer, and writes the request and the buffer's descriptor to message b.
func (s *sender) announce(a adder, b *transport.Buffer) error {
	bulk := removeBuffer(&s.bulks)
	bulk.Queue, bulk.Length, b.Bytes()[0] = transport.PassiveBulkSend, s.x.in, wantFetch
	if s.x.out > 0 {
		bulk.Queue, b.Bytes()[0] = transport.PassiveBulkRecv, wantFill
	}
	if err := a.Add(bulk); err != nil {
		return err
	}
	b.Length = 1 + copy(b.Bytes()[1:], bulk.Descriptor)
	return nil
}

func (s *sender) received(e *transport.BufferEvent) {
	if e.Err == nil {
		s.countDone(e)
	}
	if e.Final {
		_ = e.Add(e.Buffer) // fails only while the machine is being stopped
	}
	if e.Err != nil {
		s.end(e.Err)
	}
}

func (s *sender) sent(e *transport.BufferEvent) {
	s.sends = append(s.sends, e.Buffer)
	if e.Err != nil {
		s.end(e.Err)
		return
	}
	if s.waitingForBuffer > 0 {
		s.waitingForBuffer--
		s.next(e)
	}
}

func (s *sender) moved(e *transport.BufferEvent) {
	s.bulks = append(s.bulks, e.Buffer)
	if e.Err != nil {
		s.end(e.Err)
		return
	}
	s.countDone(e)
}

// countDone counts a completed transfer and starts the next one, or ends the run after the last.
func (s *sender) countDone(a adder) {
	s.ended++
	s.laps.add()
	if s.ended == s.x.n {
		s.end(nil)
		return
	}
	s.next(a)
}

// end ends the run with err. It has no effect if the run has ended.
func (s *sender) end(err error) {
	s.begun = s.x.n
	select {
	case s.done <- err:
	default:
	}
}
