package completion

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/transport"
)

// One goroutine pushes and reaps batches.
func BenchmarkPushReap(b *testing.B) {
	for _, batch := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("Batch", batch), func(b *testing.B) {
			q := New(batch)
			c := numbered(1)
			dst := make([]transport.Completion, batch)
			b.ReportAllocs()
			for b.Loop() {
				for range batch {
					q.Push(c)
				}
				q.Reap(dst)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/completion")
		})
	}
}

// The cost of polling an empty queue.
func BenchmarkPending(b *testing.B) {
	q := New(1)
	for b.Loop() {
		if q.Pending() {
			b.Fatal("there is something")
		}
	}
}

// A completion is passed to a sleeping goroutine through a queue, and another one is passed back.
func BenchmarkHandOver(b *testing.B) {
	q, answers := New(1), New(1)
	go echo(q, answers)
	c := numbered(1)
	dst := make([]transport.Completion, 1)
	b.ReportAllocs()
	for b.Loop() {
		q.Push(c)
		for answers.Reap(dst) == 0 {
			answers.Wait(never)
		}
	}
	q.Close()
}

// echo sends completions back until q is closed.
func echo(q, answers *Queue) {
	dst := make([]transport.Completion, 1)
	for !q.closed.Load() {
		q.Wait(never)
		if q.Reap(dst) > 0 {
			answers.Push(&dst[0])
		}
	}
}

// For comparison with BenchmarkHandOver: a value is passed to a sleeping goroutine and back through Go
// channels.
func BenchmarkHandOverChannel(b *testing.B) {
	q, answers := make(chan transport.Completion, 1), make(chan transport.Completion, 1)
	go func() {
		for c := range q {
			answers <- c
		}
	}()
	c := numbered(1)
	b.ReportAllocs()
	for b.Loop() {
		q <- *c
		<-answers
	}
	close(q)
}

// A producer at full rate within its credits, and a consumer that sleeps when the queue is empty.
func BenchmarkStream(b *testing.B) {
	const room = 256
	q := New(room)
	credits := make(chan int, room)
	credits <- room
	n := b.N
	go func() {
		c := numbered(1)
		for sent := 0; sent < n; {
			for range min(<-credits, n-sent) {
				q.Push(c)
				sent++
			}
		}
	}()
	dst := make([]transport.Completion, 32)
	b.ReportAllocs()
	for reaped := 0; reaped < n; {
		q.Wait(never)
		if k := q.Reap(dst); k > 0 {
			reaped += k
			credits <- k
		}
	}
}

// For comparison with BenchmarkStream: the producer and the consumer use a Go channel.
func BenchmarkStreamChannel(b *testing.B) {
	q := make(chan transport.Completion, 256)
	n := b.N
	go func() {
		c := numbered(1)
		for range n {
			q <- *c
		}
	}()
	b.ReportAllocs()
	for range n {
		<-q
	}
}
