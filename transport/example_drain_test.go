package transport_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A TM that is drained accepts no more buffers, and waits for operations that depend on peers.
func Example_drain() {
	ctx := context.Background()
	network := mem.New(mem.Config{})
	server := must(domain(ctx, network, "10.0.0.1@tcp").Open(ctx, "10.0.0.1@tcp:12345:30:1", nil))
	peer := must(domain(ctx, network, "10.0.0.2@tcp").Open(ctx, "10.0.0.2@tcp:12345:30:1", nil))

	ended := func(e *transport.BufferEvent) {
		fmt.Println(e.Queue, "cancelled:", errors.Is(e.Err, syscall.ECANCELED))
	}
	callbacks := &transport.Callbacks{transport.MsgRecv: ended, transport.PassiveBulkSend: ended}
	in, data := must(server.Domain().Buffer(ctx, 4096)), must(server.Domain().Buffer(ctx, 4096))
	in.Queue, in.Callbacks, in.MinReceiveSize, in.MaxMessages = transport.MsgRecv, callbacks, 4096, 1
	data.Queue, data.Callbacks, data.Length = transport.PassiveBulkSend, callbacks, 100
	must(server.AddAll(in, data))

	check(server.Stop()) // queued buffers stay queued
	server.Cancel(in)
	fetched := make(chan struct{})
	room := must(peer.Domain().Buffer(ctx, 4096))
	room.Queue, room.Descriptor = transport.ActiveBulkRecv, data.Descriptor
	room.Callbacks = &transport.Callbacks{transport.ActiveBulkRecv: func(e *transport.BufferEvent) {
		check(e.Err)
		close(fetched)
	}}
	check(peer.Add(room))
	<-fetched
	check(server.Await(ctx, transport.StateStopped)) // no callback runs any more
	fmt.Println(server.State())
	check(server.Close())

	for _, b := range []*transport.Buffer{in, data} {
		check(server.Domain().Free(b))
	}
	check(server.Domain().Close())
	finish(ctx, peer, room)
	// Output:
	// mRECV cancelled: true
	// pSEND cancelled: false
	// stopped
}
