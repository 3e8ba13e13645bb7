// Command get fetches data from another node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

const portal = 30

func main() {
	port := flag.Int("port", 9988, "TCP port that the nodes listen on")
	flag.Parse()
	if err := run(context.Background(), *port); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, port int) (err error) {
	server, err := start(ctx, port, "127.0.0.2@tcp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(ctx)) }()
	client, err := start(ctx, port, "127.0.0.1@tcp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()

	// The server offers memory that any node can read from any offset. It needs no
	// events, so there is no handler.
	if _, err := server.Attach(portals.Entry{Portal: portal}, portals.MD{
		Bytes:     []byte("what is offered is read where it stands"),
		Options:   portals.OpGet | portals.ManageRemote | portals.Truncate,
		Threshold: portals.Unlimited,
	}); err != nil {
		return err
	}

	to := lnet.ProcessID{NID: server.NID()}
	for _, offset := range []uint32{0, 19, 34} {
		sink := make([]byte, 15)
		got, err := client.GetWait(ctx, sink, to, node.GetOptions{Portal: portal, Offset: offset})
		if err != nil {
			return err
		}
		fmt.Printf("%d bytes from %d: %q\n", got, offset, sink[:got])
	}
	return nil
}

// start starts a node with one NID on tcp.
func start(ctx context.Context, port int, nid string) (*node.Node, error) {
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return nil, err
	}
	return node.Start(ctx, node.Config{}, driver, nid)
}
