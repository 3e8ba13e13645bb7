package transport_test

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// An event loop calls callbacks when it has time, between other work. It needs no locks, because one
// goroutine does everything. It waits on the TM's channel, which is also signalled when the TM has stopped.
func Example_eventLoop() {
	ctx := context.Background()
	network := mem.New(mem.Config{})
	d := domain(ctx, network, "10.0.0.1@tcp")
	tm := must(d.Open(ctx, "10.0.0.1@tcp:12345:30:1", nil, (*transport.TransferMachine).DeliverSynchronously))

	messages, worked := 0, 0
	in := must(d.Buffer(ctx, 4096))
	in.Queue, in.MinReceiveSize, in.MaxMessages = transport.MsgRecv, 16, 100
	in.Callbacks = &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) {
		if e.Err == nil {
			messages++
		}
	}}
	check(tm.Add(in))
	go throw(ctx, domain(ctx, network, "10.0.0.2@tcp"), 10)
	work := make(chan int)
	go func() {
		for i := range 5 {
			work <- i
		}
	}()

	for {
		wake := tm.Channel().Wait() // before the check for events
		if tm.State() > transport.StateStopping {
			break
		}
		if messages == 10 && worked == 5 && tm.State() == transport.StateStarted {
			check(tm.Abort()) // the loop continues until the last event was delivered
		}
		if !tm.Pending() {
			_ = tm.Notify(tm.Channel()) // EINVAL if the TM has stopped, which also signals the channel
			select {
			case <-wake:
			case <-work:
				worked++
			}
		}
		_, _ = tm.DeliverAll()
	}
	fmt.Println(messages, "messages, and", worked, "pieces of work")
	check(tm.Close())
	check(d.Free(in))
	check(d.Close())
	// Output: 10 messages, and 5 pieces of work
}

// throw sends n messages, one by one.
func throw(ctx context.Context, d *transport.Domain, n int) {
	tm := must(d.Open(ctx, "10.0.0.2@tcp:12345:30:*", nil))
	out, sent := must(d.Buffer(ctx, 4096)), make(chan error)
	out.Queue, out.Length, out.EndPoint = transport.MsgSend, 16, must(tm.EndPoint("10.0.0.1@tcp:12345:30:1"))
	out.Callbacks = &transport.Callbacks{transport.MsgSend: func(e *transport.BufferEvent) { sent <- e.Err }}
	for range n {
		check(tm.Add(out))
		check(<-sent)
	}
	out.EndPoint.Put()
	finish(ctx, tm, out)
}
