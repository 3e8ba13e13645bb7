// Command put sends a message from one node to another, and waits until it is
// acknowledged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/lnetd/lnetd/lnd"
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
	server, stopServer, err := start(ctx, "127.0.0.2@tcp", port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()
	client, stopClient, err := start(ctx, "127.0.0.1@tcp", port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopClient()) }()

	// The server: memory that PUTs to the portal go to, and a queue for what
	// happens to it.
	inbox := node.NewEventQueue(node.EventsOf(portals.EventPut))
	if _, err := server.Attach(portals.Entry{Portal: portal}, portals.MD{
		Bytes:     make([]byte, 4096),
		Options:   portals.OpPut | portals.ManageRemote,
		Threshold: portals.Unlimited,
		Handler:   inbox,
	}); err != nil {
		return err
	}

	// The client.
	to := lnet.ProcessID{NID: server.NIs()[1].NID}
	taken, err := client.PutWait(ctx, []byte("hello, LNet"), to, node.PutOptions{Portal: portal, HdrData: 7, Ack: true})
	if err != nil {
		return err
	}
	fmt.Println("the client:", taken, "bytes were taken")

	var e portals.Event
	if err := inbox.Next(ctx, &e); err != nil {
		return err
	}
	if e.Err != nil {
		return e.Err
	}
	fmt.Printf("the server: %s from %s, %d: %q\n", e.Type, e.Initiator, e.HdrData, e.Data())
	return nil
}

// start makes a node with one NID on tcp. stop ends it.
func start(ctx context.Context, nid string, port int) (n *node.Node, stop func() error, err error) {
	c := socklnd.DefaultConfig()
	c.AcceptPort, c.AcceptPortBulk = port, port
	c.Accept = socklnd.AcceptAll
	driver, err := socklnd.New(c)
	if err != nil {
		return nil, nil, err
	}
	n, err = node.New(node.Config{})
	if err != nil {
		return nil, nil, errors.Join(err, driver.Close())
	}
	stop = func() error { return errors.Join(n.Close(ctx), driver.Close()) }
	id, err := lnet.ParseNID(nid)
	if err == nil {
		_, err = n.AddNI(ctx, driver, lnd.Config{Net: id.Net(), NID: id})
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return n, stop, nil
}
