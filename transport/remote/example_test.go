package remote_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote"
)

// A program sends a message to itself through an lnetd. The zero Config finds the lnetd of this host.
func Example() {
	ctx := context.Background()
	path, end := startServer(ctx) // in place of lnetd
	defer end()

	core := remote.New(remote.Config{Path: path})
	m, err := transport.OpenMessenger(ctx, core, "0@lo:12345:34:*")
	if err != nil {
		log.Panic(err)
	}
	if err := m.Send(ctx, m.Addr(), []byte("hello")); err != nil {
		log.Panic(err)
	}
	msg, err := m.Receive(ctx)
	if err != nil {
		log.Panic(err)
	}
	fmt.Printf("%q through %s\n", msg.Data, core.Name())
	if err := m.Close(); err != nil {
		log.Panic(err)
	}
	// Output: "hello" through lnetd
}

// startServer starts lnetd's server for programs, on a network in memory, and returns the path of its socket.
func startServer(ctx context.Context) (path string, end func()) {
	dir, err := os.MkdirTemp("", "lnetd")
	if err != nil {
		log.Panic(err)
	}
	server, err := clients.New(clients.Config{Core: mem.New(mem.Config{}).Host()})
	if err != nil {
		log.Panic(err)
	}
	path = filepath.Join(dir, remote.SocketName)
	l, err := clients.Listen(path, -1)
	if err != nil {
		log.Panic(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return path, func() {
		if err := server.Close(ctx); err != nil {
			log.Panic(err)
		}
		if err := <-served; err != nil {
			log.Panic(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Panic(err)
		}
	}
}
