package transport_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// Two buffers receive nothing: one is cancelled, the other has a deadline. Each gets a final event, which
// returns it to the program; Cancel alone does not.
func Example_cancel() {
	ctx := context.Background()
	d := domain(ctx, mem.New(mem.Config{}), "10.0.0.1@tcp")
	tm := must(d.Open(ctx, "10.0.0.1@tcp:12345:30:1", nil))
	ended := make(chan struct{})
	callbacks := &transport.Callbacks{transport.PassiveBulkRecv: func(e *transport.BufferEvent) {
		switch {
		case errors.Is(e.Err, syscall.ECANCELED):
			fmt.Println(e.Buffer.Data, "was cancelled")
		case errors.Is(e.Err, syscall.ETIMEDOUT):
			fmt.Println(e.Buffer.Data, "was too late")
		case e.Err != nil:
			fmt.Println(e.Buffer.Data, "has failed:", e.Err)
		default:
			fmt.Println(e.Buffer.Data, "was filled") // just before the deadline
		}
		ended <- struct{}{}
	}}
	var buffers []*transport.Buffer
	for _, name := range []string{"one", "the other"} {
		b := must(d.Buffer(ctx, 1<<20))
		b.Queue, b.Callbacks, b.Data = transport.PassiveBulkRecv, callbacks, name
		buffers = append(buffers, b)
	}

	check(tm.Add(buffers[0]))
	first := tm.Cancel(buffers[0])
	<-ended
	fmt.Println(first, tm.Cancel(buffers[0])) // the second call comes too late

	buffers[1].Deadline = time.Now().Add(10 * time.Millisecond)
	check(tm.Add(buffers[1]))
	<-ended
	fmt.Println("a deadline is for one Add:", buffers[1].Deadline.IsZero())

	finish(ctx, tm, buffers...)
	// Output:
	// one was cancelled
	// true false
	// the other was too late
	// a deadline is for one Add: true
}
