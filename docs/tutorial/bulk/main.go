// Command bulk sends a message and a megabyte from one node to another with transfer
// machines.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

const size = 1 << 20

func main() {
	port := flag.Int("port", 9988, "TCP port that the nodes listen on")
	flag.Parse()
	ctx := context.Background()
	here, there := open(ctx, *port, "127.0.0.1@tcp"), open(ctx, *port, "127.0.0.2@tcp")

	// The receiver gets a message with the descriptor of the megabyte, and fetches it.
	done := make(chan struct{})
	shelf := must(there.Domain().Buffer(ctx, size))
	shelf.Queue, shelf.Callbacks = transport.ActiveBulkRecv, &transport.Callbacks{
		transport.ActiveBulkRecv: func(e *transport.BufferEvent) {
			check(e.Err)
			fmt.Printf("there: %d bytes, which begin with %q\n", e.Length, e.Bytes()[:8])
			close(done)
		}}
	inbox := must(there.Domain().Buffer(ctx, 4096))
	inbox.Queue, inbox.MinReceiveSize, inbox.MaxMessages = transport.MsgRecv, 4096, 1
	inbox.Callbacks = &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) {
		check(e.Err)
		fmt.Printf("there: a message of %d bytes from %v\n", e.Length, e.EndPoint)
		shelf.Descriptor = e.Bytes()
		check(there.Add(shelf))
	}}
	check(there.Add(inbox))

	// The sender queues the megabyte, and sends its descriptor in the message.
	left := func(e *transport.BufferEvent) { check(e.Err) }
	cargo, note := must(here.Domain().Buffer(ctx, size)), must(here.Domain().Buffer(ctx, 4096))
	cargo.Queue, cargo.Length = transport.PassiveBulkSend, size
	cargo.Callbacks = &transport.Callbacks{transport.PassiveBulkSend: left}
	cargo.CopyIn(0, []byte("megabyte"))
	check(here.Add(cargo))
	note.Queue, note.Length = transport.MsgSend, note.CopyIn(0, cargo.Descriptor)
	note.Callbacks = &transport.Callbacks{transport.MsgSend: left}
	note.EndPoint = must(here.EndPoint("127.0.0.2@tcp:12345:30:1"))
	check(here.Add(note))
	<-done
}

// open starts a node and opens transfer machine 1 of portal 30 on it.
func open(ctx context.Context, port int, nid string) *transport.TransferMachine {
	driver := must(socklnd.New(socklnd.UnprivilegedConfig(port)))
	n := must(node.Start(ctx, node.Config{}, driver, nid))
	domain := must(transport.NewDomain(ctx, inproc.New(n)))
	return must(domain.Open(ctx, nid+":12345:30:1", nil))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
