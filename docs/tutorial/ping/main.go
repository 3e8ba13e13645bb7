// Command ping makes a node on the LNet, and pings it by its NID.
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
	// The driver for TCP. DefaultConfig is that of a kernel, which listens on port
	// 988 and lets only root's connections in; this one is for everybody.
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return err
	}

	// The node. It has two NIs: 0@lo, as every node, and one on the net tcp, at the
	// address that the NID says.
	n, err := node.Start(ctx, node.Config{}, driver, "127.0.0.1@tcp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(ctx)) }()

	nid := n.NIs()[1].NID
	info, err := n.Ping(ctx, lnet.ProcessID{NID: nid}, node.PingOptions{})
	if err != nil {
		return err
	}
	for _, ni := range info.NIs {
		fmt.Println(ni.NID, ni.Status)
	}
	return nil
}
