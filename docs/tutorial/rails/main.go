// Command rails shows two nodes with two interfaces each, which find out about each
// other's, and use both.
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

	// Each knows one NID of the other. The first message would find out the rest;
	// Discover does so at once. When it returns the client knows the server; the
	// server may still be busy finding out about the client, so it is asked to, too.
	nid := server.NIs()[1].NID
	peer, err := client.Discover(ctx, nid, false)
	if err != nil {
		return err
	}
	if _, err := server.Discover(ctx, client.NIs()[1].NID, false); err != nil {
		return err
	}
	fmt.Println("the server is", peer.Primary, "- multi-rail:", peer.MultiRail)
	for _, ni := range peer.NIs {
		fmt.Println(" ", ni.NID)
	}

	// All messages are for that one NID, and take turns over both.
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

	// What decides where the next one goes. Its String has the figures.
	why := client.Explain(nid, node.ExplainOptions{Portal: portal})
	fmt.Println("the next may go to", why.Case)
	return nil
}

// start makes a node with NIDs on nets of type tcp.
func start(ctx context.Context, port int, nids ...string) (*node.Node, error) {
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return nil, err
	}
	return node.Start(ctx, node.Config{}, driver, nids...)
}
