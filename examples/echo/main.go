// Command echo answers every message that it receives with a message of the same content.
// The argument is the address of its transfer machine:
//
//	echo -port 9988 127.0.0.1@tcp:12345:34:1
//
// It runs until it is interrupted. The port is the TCP port on which all nodes of the net
// listen.
//
// To begin a new program with it, copy this file and create a module:
//
//	go mod init example.com/echo
//	go get github.com/lnetd/lnetd
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

func main() {
	port := flag.Int("port", 9988, "TCP port of all nodes")
	flag.Parse()
	if err := run(context.Background(), *port, flag.Arg(0)); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, port int, address string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	at, err := transport.ParseAddress(address)
	if err != nil {
		return err
	}
	driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{}, driver, at.NID.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()

	m, err := transport.OpenMessenger(ctx, inproc.New(n), address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	fmt.Println("listening at", m.Addr())
	for msg, err := range m.Messages(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%d bytes from %v\n", len(msg.Data), msg.From)
		if err := m.Send(ctx, msg.From, msg.Data); err != nil {
			log.Println(err)
		}
	}
	return nil
}
