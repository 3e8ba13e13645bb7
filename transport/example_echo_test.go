package transport_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A server answers to the end point that a message came from. It needs several buffers, because a message
// that finds no buffer is lost. Each buffer is alternately on the receive queue and on the send queue.
func Example_echo() {
	ctx := context.Background()
	network := mem.New(mem.Config{})
	server := must(domain(ctx, network, "10.0.0.1@tcp").Open(ctx, "10.0.0.1@tcp:12345:30:1", nil))
	client := must(domain(ctx, network, "10.0.0.2@tcp").Open(ctx, "10.0.0.2@tcp:12345:30:*", nil))

	echo := &transport.Callbacks{
		transport.MsgRecv: func(e *transport.BufferEvent) {
			if errors.Is(e.Err, syscall.ECANCELED) {
				return // the server stops
			}
			check(e.Err)
			b := e.Buffer // the program owns it again, because this was its last message
			b.Queue, b.Length, b.EndPoint = transport.MsgSend, e.Length, e.EndPoint
			check(e.Add(b))
		},
		transport.MsgSend: func(e *transport.BufferEvent) {
			b := e.Buffer // whether the answer was sent or not
			b.Queue, b.EndPoint = transport.MsgRecv, nil
			if err := e.Add(b); err != nil && server.State() == transport.StateStarted {
				panic(err)
			}
		},
	}
	var requests []*transport.Buffer
	for range 4 {
		b := must(server.Domain().Buffer(ctx, 4096))
		b.Callbacks, b.Queue, b.MinReceiveSize, b.MaxMessages = echo, transport.MsgRecv, b.Size(), 1
		check(server.Add(b))
		requests = append(requests, b)
	}

	done := make(chan struct{})
	in, out := must(client.Domain().Buffer(ctx, 4096)), must(client.Domain().Buffer(ctx, 4096))
	in.Queue, in.MinReceiveSize, in.MaxMessages = transport.MsgRecv, in.Size(), 1
	in.Callbacks = &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) {
		check(e.Err)
		fmt.Printf("%q from %v\n", e.Bytes(), e.EndPoint)
		close(done)
	}}
	check(client.Add(in)) // before the request is sent
	out.Queue, out.Length = transport.MsgSend, out.CopyIn(0, []byte("hello"))
	out.Callbacks = &transport.Callbacks{transport.MsgSend: func(e *transport.BufferEvent) { check(e.Err) }}
	to := must(client.EndPoint("10.0.0.1@tcp:12345:30:1"))
	out.EndPoint = to
	check(client.Add(out)) // holds the end point as long as needed
	to.Put()
	<-done

	finish(ctx, client, in, out)
	finish(ctx, server, requests...)
	// Output: "hello" from 10.0.0.1@tcp:12345:30:1
}
