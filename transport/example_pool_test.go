package transport_test

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A TM keeps four buffers on its receive queue, which it takes from a pool automatically. The pool is too
// small at first, and grows when it calls Low.
func Example_pool() {
	ctx := context.Background()
	network := mem.New(mem.Config{})
	d := domain(ctx, network, "10.0.0.1@tcp")
	low := make(chan struct{}, 1)
	pool := must(d.NewPool(transport.PoolConfig{
		Segments: 4, SegmentSize: 4096,
		Low: func(*transport.Pool) { // called by the TM's worker, so it must not wait
			select {
			case low <- struct{}{}:
			default:
			}
		},
	}))
	must(pool.Provision(ctx, 2))

	// A buffer receives up to four messages of up to 4096 bytes each. It returns to its pool with its final
	// event, even if that has an error. By then the TM has taken another one.
	received := make(chan string, 6)
	callbacks := &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) {
		if e.Err == nil {
			received <- string(e.Bytes())
		}
		if e.Final {
			check(pool.Put(e.Buffer, e.TM.Colour()))
		}
	}}
	server := must(d.Open(ctx, "10.0.0.1@tcp:12345:30:1", nil, func(tm *transport.TransferMachine) error {
		return tm.AttachPool(pool, transport.Provisioning{
			Callbacks: callbacks, MinReceiveSize: 4096, MaxMessages: 4, QueueLength: 4,
		})
	}))

	<-low
	fmt.Println("queue", server.QueueLength(transport.MsgRecv), "deficit", server.Deficit(), "free", pool.Free())
	must(pool.Provision(ctx, 4)) // the TM is served first
	fmt.Println("queue", server.QueueLength(transport.MsgRecv), "deficit", server.Deficit(), "free", pool.Free())

	sendSix(ctx, domain(ctx, network, "10.0.0.2@tcp"), func() { fmt.Println(<-received) })
	check(server.Shutdown(ctx)) // the callbacks return the buffers
	fmt.Println("free", pool.Free(), "of", pool.Size())
	check(pool.Close())
	check(d.Close())
	// Output:
	// queue 2 deficit 2 free 0
	// queue 4 deficit 0 free 2
	// message 0
	// message 1
	// message 2
	// message 3
	// message 4
	// message 5
	// free 6 of 6
}

// sendSix sends messages to the TM of Example_pool, and calls next after each.
func sendSix(ctx context.Context, d *transport.Domain, next func()) {
	client := must(d.Open(ctx, "10.0.0.2@tcp:12345:30:*", nil))
	message := must(d.Buffer(ctx, 4096))
	sent := make(chan error)
	message.Queue, message.EndPoint = transport.MsgSend, must(client.EndPoint("10.0.0.1@tcp:12345:30:1"))
	message.Callbacks = &transport.Callbacks{transport.MsgSend: func(e *transport.BufferEvent) { sent <- e.Err }}
	for i := range 6 {
		message.Length = message.CopyIn(0, fmt.Append(nil, "message ", i))
		check(client.Add(message))
		check(<-sent)
		next()
	}
	message.EndPoint.Put()
	finish(ctx, client, message)
}
