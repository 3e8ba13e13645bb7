// Command put sends messages from one node to another, and waits until each is
// acknowledged.
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

	// The inbox receives the messages for the portal.
	inbox, err := server.OpenInbox(node.InboxConfig{Portal: portal})
	if err != nil {
		return err
	}

	// The client sends three messages and waits for the ACK of each.
	to := lnet.ProcessID{NID: server.NID()}
	for k, text := range []string{"hello", "LNet", "bye"} {
		o := node.PutOptions{Portal: portal, HdrData: uint64(k), Ack: true}
		taken, err := client.PutWait(ctx, []byte(text), to, o)
		if err != nil {
			return err
		}
		fmt.Println("the client:", taken, "bytes were taken")
	}

	// The server reads the messages. The loop releases the memory of each.
	for m, err := range inbox.Messages(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("the server: %q from %s, number %d\n", m.Data, m.Initiator, m.HdrData)
		if string(m.Data) == "bye" {
			break
		}
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
