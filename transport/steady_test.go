package transport

import (
	"context"
	"testing"
	"time"
)

// steadyTM completes each op immediately, and allocates nothing.
type steadyTM struct {
	*fakeTM
	messages int // number of messages before the final event of MsgRecv
}

func (tm steadyTM) Submit(ops []Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		if op.Cancel {
			continue
		}
		c := Completion{Token: op.Buffer.(*fakeBuffer).token, Sequence: op.Sequence, Final: true, Length: 1}
		if op.Queue == MsgRecv {
			c.Sender = peer
			c.Final = false
			for range tm.messages {
				tm.pushOne(c)
			}
			c.Final = true
		}
		tm.pushOne(c)
	}
	tm.Wake()
	return len(ops), nil
}

func (tm steadyTM) pushOne(c Completion) {
	c.Time = time.Now()
	tm.mu.Lock()
	tm.queue = append(tm.queue, c)
	tm.mu.Unlock()
	tm.pending.Add(1)
}

// steady is a TM on steadyTM, and a buffer for each queue.
type steady struct {
	fixture
	buffers [QueueTypes]*Buffer
	final   chan struct{} // of the second add
	again   func(e *BufferEvent) error
	rounds  int
}

func newSteady(tb testing.TB, synchronous bool) *steady {
	ctx := context.Background()
	s := &steady{final: make(chan struct{}, 1)}
	s.core = newFakeCore()
	s.core.wrap = func(tm *fakeTM) CoreTM { return steadyTM{tm, 2} }
	d, err := NewDomain(ctx, s.core)
	if err != nil {
		tb.Fatal(err)
	}
	s.domain = d
	if s.tm, err = d.NewTM(nil); err != nil {
		tb.Fatal(err)
	}
	if synchronous {
		if err := s.tm.DeliverSynchronously(); err != nil {
			tb.Fatal(err)
		}
	}
	if err := s.tm.Start(address); err != nil {
		tb.Fatal(err)
	}
	if err := s.tm.Await(ctx, StateStarted); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, e := range s.held {
			e.Put()
		}
		if err := s.tm.Shutdown(ctx); err != nil {
			tb.Error(err)
		}
	})
	var calls Callbacks
	for q := range calls {
		calls[q] = s.called
	}
	s.t = &testing.T{}
	for q := range s.buffers {
		s.buffers[q] = s.buffer(QueueType(q))
		s.buffers[q].Callbacks = &calls
		s.buffers[q].MaxMessages = 3
	}
	return s
}

// called adds a buffer again, once.
func (s *steady) called(e *BufferEvent) {
	for p := range e.Data() {
		_ = p
	}
	if !e.Final {
		return
	}
	s.rounds++
	if s.rounds%2 == 1 {
		if err := s.again(e); err != nil {
			panic(err)
		}
		return
	}
	s.final <- struct{}{}
}

// BenchmarkEngine measures the cost of the engine itself: two adds and their events per op, with
// synchronous delivery.
func BenchmarkEngine(b *testing.B) {
	for q := range QueueType(QueueTypes) {
		b.Run(q.String(), func(b *testing.B) {
			s := newSteady(b, true)
			s.again = func(e *BufferEvent) error { return e.TM.Add(e.Buffer) }
			b.ReportAllocs()
			for b.Loop() {
				if err := s.tm.Add(s.buffers[q]); err != nil {
					b.Fatal(err)
				}
				if _, err := s.tm.DeliverAll(); err != nil {
					b.Fatal(err)
				}
				<-s.final
			}
		})
	}
}
