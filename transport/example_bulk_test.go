package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A client announces two buffers in one message: one to be fetched and one to be filled. The server fetches
// the first, changes the data, and fills the second. The client's TM does nothing meanwhile, because the
// side that has the descriptor moves passive bulk.
func Example_bulk() {
	ctx := context.Background()
	network := mem.New(mem.Config{})
	server := must(domain(ctx, network, "10.0.0.1@tcp").Open(ctx, "10.0.0.1@tcp:12345:30:1", nil))
	client := must(domain(ctx, network, "10.0.0.2@tcp").Open(ctx, "10.0.0.2@tcp:12345:30:*", nil))
	request, work := serveBulk(ctx, server)

	done := make(chan struct{})
	callbacks := &transport.Callbacks{
		transport.MsgSend:         func(e *transport.BufferEvent) { check(e.Err) },
		transport.PassiveBulkSend: func(e *transport.BufferEvent) { check(e.Err) },
		transport.PassiveBulkRecv: func(e *transport.BufferEvent) {
			check(e.Err)
			fmt.Printf("%d bytes have come: %q...\n", e.Length, e.Bytes()[:8])
			close(done)
		},
	}
	buffers := make([]*transport.Buffer, 3)
	for i := range buffers {
		buffers[i] = must(client.Domain().Buffer(ctx, 1<<20))
		buffers[i].Callbacks = callbacks
	}
	data, room, message := buffers[0], buffers[1], buffers[2]
	data.Queue, data.Length = transport.PassiveBulkSend, data.Size()
	copy(data.Bytes(), bytes.Repeat([]byte("megabyte"), data.Size()/8))
	room.Queue = transport.PassiveBulkRecv
	must(client.AddAll(data, room)) // sets the descriptors

	message.Queue, message.EndPoint = transport.MsgSend, must(client.EndPoint("10.0.0.1@tcp:12345:30:1"))
	message.Length = message.CopyIn(0, append(bytes.Clone(data.Descriptor), room.Descriptor...))
	check(client.Add(message))
	<-done

	message.EndPoint.Put()
	finish(ctx, client, buffers...)
	finish(ctx, server, request, work)
	// Output: 1048576 bytes have come: "MEGABYTE"...
}

// serveBulk makes a TM accept messages with two descriptors. It fetches the buffer of the first one, and
// fills that of the second with the data in capital letters.
func serveBulk(ctx context.Context, server *transport.TransferMachine) (request, work *transport.Buffer) {
	request, work = must(server.Domain().Buffer(ctx, 4096)), must(server.Domain().Buffer(ctx, 1<<20))
	var fill transport.Descriptor
	callbacks := &transport.Callbacks{
		transport.MsgRecv: func(e *transport.BufferEvent) {
			if errors.Is(e.Err, syscall.ECANCELED) {
				return // the server stops
			}
			check(e.Err)
			m := bytes.Clone(e.Bytes()) // request is added again below, which may change it
			work.Queue, work.Descriptor, fill = transport.ActiveBulkRecv, m[:len(m)/2], m[len(m)/2:]
			must(server.AddAll(work, request))
		},
		transport.ActiveBulkRecv: func(e *transport.BufferEvent) {
			check(e.Err)
			copy(work.Bytes(), bytes.ToUpper(e.Bytes()))
			work.Queue, work.Length, work.Descriptor = transport.ActiveBulkSend, e.Length, fill
			check(e.Add(work))
		},
		transport.ActiveBulkSend: func(e *transport.BufferEvent) { check(e.Err) },
	}
	request.Callbacks, work.Callbacks = callbacks, callbacks
	request.Queue, request.MinReceiveSize, request.MaxMessages = transport.MsgRecv, request.Size(), 1
	check(server.Add(request))
	return request, work
}
