// Command ping starts an LNet node over TCP and pings another node:
//
//	ping -nid 127.0.0.1@tcp -port 9988 127.0.0.2@tcp
//
// It prints the NIDs of the other node and their states. Without an argument the node
// pings itself. The port is the TCP port on which all nodes of the net listen. Kernels and
// lnetd use 988, which needs socklnd.DefaultConfig and the right to bind to that port.
//
// To begin a new program with it, copy this file and create a module:
//
//	go mod init example.com/ping
//	go get github.com/lnetd/lnetd
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func main() {
	nid := flag.String("nid", "127.0.0.1@tcp", "NID of this node")
	port := flag.Int("port", 9988, "TCP port of all nodes")
	flag.Parse()
	if err := run(context.Background(), *nid, *port, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, nid string, port int, to string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{}, driver, nid)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()

	target := n.NID()
	if to != "" {
		if target, err = lnet.ParseNID(to); err != nil {
			return err
		}
	}
	info, err := n.Ping(ctx, lnet.ProcessID{NID: target}, node.PingOptions{})
	if err != nil {
		return err
	}
	for _, ni := range info.NIs {
		fmt.Println(ni.NID, ni.Status)
	}
	return nil
}
