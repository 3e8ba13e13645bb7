package remote_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote"
)

// player is a TM that sends one message at a time, and has one receive buffer.
type player struct {
	tm  transport.CoreTM
	ops [2]transport.Op // receive, send
	got [4]transport.Completion
}

// newPlayer returns a player in a new domain. Its TM has the given number, and sends to the TM with number
// to.
func newPlayer(b *testing.B, core transport.Core, number, to uint16) *player {
	b.Helper()
	p := &player{}
	d, err := core.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	at := func(n uint16) transport.Address {
		return transport.Address{NID: lnet.LoopbackNID, PID: lnet.PIDLustre, Portal: 34, TMID: n}
	}
	if p.tm, err = d.StartTM(b.Context(), at(number), 4); err != nil {
		b.Fatal(err)
	}
	for k := range p.ops {
		m, err := d.Alloc(b.Context(), 64)
		if err != nil {
			b.Fatal(err)
		}
		if p.ops[k].Buffer, err = d.Register(b.Context(), [][]byte{m}, k); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := p.ops[k].Buffer.Deregister(); err != nil {
				b.Error(err)
			}
			if err := d.Free(m); err != nil {
				b.Error(err)
			}
			if k == 0 { // the last one
				if err := d.Close(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	p.ops[0].Queue, p.ops[0].MinReceiveSize, p.ops[0].MaxMessages = transport.MsgRecv, 64, 1
	p.ops[1].Queue, p.ops[1].Length, p.ops[1].Peer = transport.MsgSend, 64, at(to)
	return p
}

// throw adds the receive buffer for the next message, and sends one.
func (p *player) throw(b *testing.B) {
	if n, err := p.tm.Submit(p.ops[:]); n != len(p.ops) {
		b.Error(err)
	}
}

// catch waits for a message, and for the end of the send.
func (p *player) catch() {
	for left := 2; left > 0; left -= p.tm.Reap(p.got[:left]) {
		p.tm.Wait(time.Time{})
	}
}

// A message is sent to another TM and one is sent back, through an lnetd, all in this process. It is
// compared with two eventfds and two threads that block on them, in turns. Either all sides sleep, or all
// poll, which needs three processors. The results are the medians of the turns.
func BenchmarkRoundTrip(b *testing.B) {
	for name, poll := range map[string]time.Duration{"Sleeping": 0, "Polling": 200 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			_, core := serve(b, mem.New(mem.Config{}).Host(), clients.Config{PollTime: poll}, remote.Config{PollTime: poll, Completions: 8})
			one, two := newPlayer(b, core, 1, 2), newPlayer(b, core, 2, 1)
			receive(b, two)
			stop, done := play(b, two)
			plain := newPlain(b)
			const turn = 100
			var ours, plains, ratios []float64
			before := core.Stats()
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				for range turn {
					one.throw(b)
					one.catch()
				}
				middle := time.Now()
				for range turn {
					plain()
				}
				x, y := float64(middle.Sub(start))/turn, float64(time.Since(middle))/turn
				ours, plains, ratios = append(ours, x), append(plains, y), append(ratios, x/y)
			}
			b.StopTimer()
			s := core.Stats()
			for name, v := range map[string][]float64{"ns/lnetd": ours, "ns/eventfd": plains, "ratio": ratios} {
				slices.Sort(v)
				b.ReportMetric(v[len(v)/2], name)
			}
			b.ReportMetric(float64(s.BellWrites-before.BellWrites)/float64(len(ours)*turn), "bells")
			b.ReportMetric(0, "ns/op") // of a turn of either kind
			stop.Store(true)
			two.tm.Wake()
			<-done
			end(b, one.tm)
		})
	}
}

// receive adds the receive buffer, before any message is sent.
func receive(b *testing.B, p *player) {
	if n, err := p.tm.Submit(p.ops[:1]); n != 1 {
		b.Fatal(err)
	}
	p.tm.Flush(time.Time{})
}

// play answers each message until stop.
func play(b *testing.B, p *player) (stop *atomic.Bool, done chan struct{}) {
	stop, done = new(atomic.Bool), make(chan struct{})
	go func() {
		defer close(done)
		defer end(b, p.tm)
		answers, leaving := 0, false // a message may arrive before the previous answer has ended
		for !stop.Load() {
			n := p.tm.Reap(p.got[:])
			if n == 0 {
				p.tm.Wait(time.Time{})
			}
			for _, c := range p.got[:n] {
				if c.Token == 0 {
					answers++
				} else {
					leaving = false
				}
			}
			if answers > 0 && !leaving {
				answers, leaving = answers-1, true
				p.throw(b)
			}
		}
		cancel := []transport.Op{p.ops[0]}
		cancel[0].Cancel = true
		_, _ = p.tm.Submit(cancel)
		for final := false; !final; {
			p.tm.Wait(time.Time{})
			for _, c := range p.got[:p.tm.Reap(p.got[:])] {
				final = final || c.Token == 0
			}
		}
	}()
	return stop, done
}

// end stops a TM, whose last op may not have been reaped.
func end(b *testing.B, tm transport.CoreTM) {
	var c [4]transport.Completion
	for tm.Stop() != nil {
		tm.Reap(c[:])
		runtime.Gosched()
	}
}

// newPlain returns a function that sends a number by one eventfd to a thread, which answers by another one.
func newPlain(b *testing.B) (roundTrip func()) {
	b.Helper()
	var fds [2]int
	for k := range fds {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			b.Fatal(err)
		}
		fds[k] = fd
	}
	done := make(chan struct{})
	var over atomic.Bool
	pass := func(in, out int, first bool) {
		word := make([]byte, 8)
		word[0] = 1
		if first {
			_, _ = unix.Write(out, word)
		}
		_, _ = unix.Read(in, word)
		if !first {
			_, _ = unix.Write(out, word)
		}
	}
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for !over.Load() {
			pass(fds[0], fds[1], false)
		}
	}()
	b.Cleanup(func() {
		over.Store(true)
		pass(fds[1], fds[0], true)
		<-done
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
	return func() { pass(fds[1], fds[0], true) }
}

// A buffer is posted and cancelled, through an lnetd in this process, with and without the wait of Add
// until peers can reach it. The difference is the cost of that wait for an op that waits for lnetd anyway.
// wait-ns is the duration of Flush.
func BenchmarkPost(b *testing.B) {
	for name, flush := range map[string]bool{"Submitted": false, "Posted": true} {
		b.Run(name, func(b *testing.B) {
			_, core := serve(b, mem.New(mem.Config{}).Host(), clients.Config{}, remote.Config{Completions: 8})
			p := newPlayer(b, core, 1, 2)
			post, cancel := p.ops[:1], []transport.Op{p.ops[0]}
			cancel[0].Cancel = true
			var waited time.Duration
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.tm.Submit(post); err != nil {
					b.Fatal(err)
				}
				if flush {
					start := time.Now()
					p.tm.Flush(time.Time{})
					waited += time.Since(start)
				}
				if _, err := p.tm.Submit(cancel); err != nil {
					b.Fatal(err)
				}
				for p.tm.Reap(p.got[:]) == 0 {
					p.tm.Wait(time.Time{})
				}
			}
			b.ReportMetric(float64(waited.Nanoseconds())/float64(b.N), "wait-ns")
			end(b, p.tm)
		})
	}
}
