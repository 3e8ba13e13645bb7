package transport_test

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A server answers every message. The network is in memory here; with inproc.New(node) as the Core the same
// program runs on LNet.
func ExampleMessenger() {
	ctx := context.Background()
	network := mem.New(mem.Config{})
	host := func(nid string) transport.Core { return network.Host(must(lnet.ParseNID(nid))) }

	server := must(transport.OpenMessenger(ctx, host("10.0.0.1@tcp"), "10.0.0.1@tcp:12345:34:1"))
	go func() {
		for msg, err := range server.Messages(ctx) {
			check(err)
			check(server.Send(ctx, msg.From, msg.Data))
		}
	}()

	client := must(transport.OpenMessenger(ctx, host("10.0.0.2@tcp"), "10.0.0.2@tcp:12345:34:*"))
	check(client.Send(ctx, server.Addr(), []byte("hello")))
	answer := must(client.Receive(ctx))
	check(client.Close())
	check(server.Close())
	fmt.Printf("%q from %v\n", answer.Data, answer.From)
	// Output: "hello" from 10.0.0.1@tcp:12345:34:1
}
