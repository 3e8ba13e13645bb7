package hosting

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

const messageSize = 256

// join creates a client with a TM.
func join(ctx context.Context, o order, completions int) (*transport.TransferMachine, error) {
	d, err := transport.NewDomain(ctx, remote.New(remote.Config{Path: o.Socket, Program: o.Role, Completions: completions}))
	if err != nil {
		return nil, err
	}
	return d.Open(ctx, o.At, nil)
}

// depart closes a client in good order.
func depart(ctx context.Context, tm *transport.TransferMachine, bs ...*transport.Buffer) error {
	if err := tm.Shutdown(ctx); err != nil {
		return err
	}
	for _, b := range bs {
		if err := tm.Domain().Free(b); err != nil {
			return err
		}
	}
	return tm.Domain().Close()
}

// echoReport has the totals of an echo.
type echoReport struct {
	Echoes, Troubles int
	Last             string
}

// echo sends each message back to its sender.
type echo struct {
	tm *transport.TransferMachine

	mu     sync.Mutex // guards report
	report echoReport
}

// beEcho is an echo. The command "report" makes it print its report.
func beEcho(ctx context.Context, o order, in *bufio.Scanner) error {
	tm, err := join(ctx, o, 1024)
	if err != nil {
		return err
	}
	x := &echo{tm: tm}
	callbacks := &transport.Callbacks{transport.MsgRecv: x.received, transport.MsgSend: x.sent}
	var all []*transport.Buffer
	for range 256 {
		b, err := tm.Domain().Buffer(ctx, messageSize)
		if err != nil {
			return err
		}
		b.Queue, b.Callbacks, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, callbacks, messageSize, 1
		if err := tm.Add(b); err != nil {
			return err
		}
		all = append(all, b)
	}
	fmt.Println("up")
	for in.Scan() {
		x.mu.Lock()
		process.Say("report", x.report)
		x.mu.Unlock()
	}
	return depart(ctx, tm, all...)
}

func (x *echo) trouble(what string, err error) {
	if x.tm.State() != transport.StateStarted {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.report.Troubles++
	x.report.Last = fmt.Sprint(what, ": ", err)
}

func (x *echo) received(e *transport.BufferEvent) {
	if e.Err != nil {
		x.trouble("receive", e.Err)
		return
	}
	b := e.Buffer
	b.Queue, b.Length, b.EndPoint = transport.MsgSend, e.Length, e.EndPoint
	if err := e.Add(b); err != nil {
		x.trouble("add", err)
	}
}

func (x *echo) sent(e *transport.BufferEvent) {
	if e.Err != nil {
		x.trouble("send", e.Err)
	}
	x.mu.Lock()
	x.report.Echoes++
	x.mu.Unlock()
	b := e.Buffer
	b.Queue, b.EndPoint = transport.MsgRecv, nil
	if err := e.Add(b); err != nil {
		x.trouble("add again", err)
	}
}

// pingReport has the results of a ping since its last report. Times are in µs.
type pingReport struct {
	N                int
	Median, P99, Max float64
	Lost, Troubles   int
	Last             string
}

// String returns a summary for users.
func (r *pingReport) String() string {
	return fmt.Sprintf("%d round trips, median %.0f µs, 99 %% %.0f µs, longest %.0f µs, lost %d, troubles %d %s",
		r.N, r.Median, r.P99, r.Max, r.Lost, r.Troubles, r.Last)
}

// bePing sends messages to an echo, one after the other, and waits for each answer. The command
// "report" makes it print the results since the last report.
func bePing(ctx context.Context, o order, in *bufio.Scanner) error {
	tm, err := join(ctx, o, 64)
	if err != nil {
		return err
	}
	p := &pinger{tm: tm, answers: make(chan uint64, 64), sent: make(chan error, 64)}
	if err := p.prepare(ctx, o.To); err != nil {
		return err
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				p.once()
			}
		}
	}()
	fmt.Println("up")
	for in.Scan() {
		p.tell()
	}
	close(over)
	<-done
	p.out.EndPoint.Put()
	return depart(ctx, tm, append(p.rooms, p.out)...)
}

// pinger is the state of bePing.
type pinger struct {
	tm      *transport.TransferMachine
	rooms   []*transport.Buffer
	out     *transport.Buffer
	answers chan uint64
	sent    chan error
	number  uint64

	mu     sync.Mutex // guards the rest
	report pingReport
	times  []time.Duration
}

func (p *pinger) prepare(ctx context.Context, to string) error {
	callbacks := &transport.Callbacks{
		transport.MsgRecv: func(e *transport.BufferEvent) {
			if e.Err != nil {
				p.trouble(e.Err)
				return
			}
			n := binary.LittleEndian.Uint64(e.Bytes())
			if err := e.Add(e.Buffer); err != nil {
				p.trouble(err)
			}
			select {
			case p.answers <- n:
			default:
			}
		},
		transport.MsgSend: func(e *transport.BufferEvent) { p.sent <- e.Err },
	}
	for range 4 {
		b, err := p.tm.Domain().Buffer(ctx, messageSize)
		if err != nil {
			return err
		}
		b.Queue, b.Callbacks, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, callbacks, messageSize, 1
		if err := p.tm.Add(b); err != nil {
			return err
		}
		p.rooms = append(p.rooms, b)
	}
	var err error
	if p.out, err = p.tm.Domain().Buffer(ctx, messageSize); err != nil {
		return err
	}
	p.out.Queue, p.out.Callbacks, p.out.Length = transport.MsgSend, callbacks, 64
	p.out.EndPoint, err = p.tm.EndPoint(to)
	return err
}

func (p *pinger) trouble(err error) {
	if p.tm.State() != transport.StateStarted {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Troubles++
	p.report.Last = err.Error()
}

// once makes one round trip.
func (p *pinger) once() {
	p.number++
	binary.LittleEndian.PutUint64(p.out.Bytes(), p.number)
	began := time.Now()
	if err := p.tm.Add(p.out); err != nil {
		p.trouble(err)
		time.Sleep(time.Millisecond)
		return
	}
	if err := <-p.sent; err != nil {
		p.trouble(err)
		return
	}
	lost := time.After(10 * time.Second)
	for {
		select {
		case n := <-p.answers:
			if n != p.number {
				continue // a late answer
			}
			p.mu.Lock()
			p.times = append(p.times, time.Since(began))
			p.mu.Unlock()
		case <-lost:
			p.mu.Lock()
			p.report.Lost++
			p.mu.Unlock()
		}
		return
	}
}

func (p *pinger) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.times)
	us := func(k int) float64 { return float64(p.times[k]) / 1e3 }
	if n := len(p.times); n > 0 {
		p.report.N, p.report.Median, p.report.P99, p.report.Max = n, us(n/2), us(n*99/100), us(n-1)
	}
	process.Say("report", p.report)
	p.report, p.times = pingReport{}, p.times[:0]
}
