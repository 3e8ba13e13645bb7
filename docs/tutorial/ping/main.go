// Command ping creates an LNet node and pings it by its NID.
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

func main() {
	port := flag.Int("port", 9988, "TCP port that the node listens on")
	flag.Parse()
	if err := run(context.Background(), *port); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, port int) (err error) {
	// Create the driver for TCP. A node with DefaultConfig listens on port 988, as
	// kernels do, and accepts only connections from privileged ports. This
	// configuration needs no privileges.
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return err
	}

	// Start the node. It has two NIs: 0@lo, which every node has, and one on the net
	// tcp at the address of the NID.
	n, err := node.Start(ctx, node.Config{}, driver, "127.0.0.1@tcp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(ctx)) }()

	nid := n.NID()
	info, err := n.Ping(ctx, lnet.ProcessID{NID: nid}, node.PingOptions{})
	if err != nil {
		return err
	}
	for _, ni := range info.NIs {
		fmt.Println(ni.NID, ni.Status)
	}
	return nil
}
