// Command client sends a message through the lnetd of this host, and prints the answer:
//
//	client -from 10.0.0.2@tcp:12345:34:* 10.0.0.1@tcp:12345:34:1
//
// The address after -from is that of the client itself, with a NID of lnetd or 0@lo. The
// argument is the address of a program that answers messages, such as the example echo.
// Without an argument, the client sends the message to itself.
//
// To begin a new program with it, copy this file and create a module:
//
//	go mod init example.com/client
//	go get github.com/lnetd/lnetd
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

func main() {
	socket := flag.String("socket", "", "lnetd's socket for programs (default that of this host's lnetd)")
	from := flag.String("from", "0@lo:12345:34:*", "address of this program")
	message := flag.String("message", "hello", "message to send")
	flag.Parse()
	if err := run(context.Background(), *socket, *from, flag.Arg(0), *message); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, socket, from, to, message string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := transport.OpenMessenger(ctx, remote.New(remote.Config{Path: socket}), from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	target := m.Addr()
	if to != "" {
		if target, err = transport.ParseAddress(to); err != nil {
			return err
		}
	}
	if err := m.Send(ctx, target, []byte(message)); err != nil {
		return err
	}
	answer, err := m.Receive(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%q from %v\n", answer.Data, answer.From)
	return nil
}
