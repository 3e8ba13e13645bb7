// Command rails shows two nodes with two interfaces each. They discover each other's
// interfaces and use both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

const (
	portal   = 30
	messages = 6
)

func main() {
	port := flag.Int("port", 9988, "TCP port that the nodes listen on")
	flag.Parse()
	if err := run(context.Background(), *port); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, port int) (err error) {
	server, err := start(ctx, port, "127.0.0.2@tcp", "127.0.1.2@tcp1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(ctx)) }()
	client, err := start(ctx, port, "127.0.0.1@tcp", "127.0.1.1@tcp1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()

	inbox, err := server.OpenInbox(node.InboxConfig{Portal: portal})
	if err != nil {
		return err
	}

	// Each node knows one NID of the other. The first message would start discovery;
	// Discover does so at once. When it returns, the client knows all NIDs of the server.
	// The server may not have finished its discovery of the client, so it calls Discover
	// too.
	nid := server.NID()
	peer, err := client.Discover(ctx, nid)
	if err != nil {
		return err
	}
	if _, err := server.Discover(ctx, client.NID()); err != nil {
		return err
	}
	fmt.Println("the server is", peer.Primary, "- multi-rail:", peer.MultiRail)
	for _, ni := range peer.NIs {
		fmt.Println(" ", ni.NID)
	}

	// All messages are addressed to one NID. They alternate between both rails.
	count := map[lnet.NID]int{}
	for range messages {
		if _, err := client.PutWait(ctx, []byte("x"), lnet.ProcessID{NID: nid}, node.PutOptions{Portal: portal, Ack: true}); err != nil {
			return err
		}
		m, err := inbox.Next(ctx)
		if err != nil {
			return err
		}
		count[m.Source.NID]++
		m.Release()
	}
	for _, ni := range client.NIs()[1:] {
		fmt.Println(count[ni.NID], "messages came from", ni.NID)
	}

	// Explain returns how the path of the next message is chosen. The String method of
	// its result includes the figures.
	why := client.Admin().Explain(nid, node.ExplainOptions{Portal: portal})
	fmt.Println("the next may go to", why.Case)
	return nil
}

// start starts a node with NIDs on nets of type tcp.
func start(ctx context.Context, port int, nids ...string) (*node.Node, error) {
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return nil, err
	}
	return node.Start(ctx, node.Config{}, driver, nids...)
}
