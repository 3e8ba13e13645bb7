// Command ping makes a node on the LNet, and pings it by its NID.
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
	// The driver for TCP. Its defaults are those of a kernel, which listens on
	// port 988 and lets only root's connections in.
	c := socklnd.DefaultConfig()
	c.AcceptPort, c.AcceptPortBulk = port, port
	c.Accept = socklnd.AcceptAll
	driver, err := socklnd.New(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()

	// The node. It has one interface from the start, 0@lo.
	n, err := node.New(node.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(ctx)) }()

	// A second one, on the net tcp, at the address that the NID says.
	nid, err := lnet.ParseNID("127.0.0.1@tcp")
	if err != nil {
		return err
	}
	if _, err := n.AddNI(ctx, driver, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		return err
	}

	info, err := n.Ping(ctx, lnet.ProcessID{NID: nid}, node.PingOptions{})
	if err != nil {
		return err
	}
	for _, ni := range info.NIs {
		fmt.Println(ni.NID, ni.Status)
	}
	return nil
}
