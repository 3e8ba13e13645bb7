package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// guestMain is a program for scripts whose TM lnetd hosts: guest SOCKET ADDRESS NAME [leave]. It
// prints READY=1 when it is ready, and runs until lnetd ends. When the end is announced, it sends
// itself a message, and then exits if "leave" is given.
func guestMain() {
	if err := guest(os.Args[1], os.Args[2], os.Args[3], len(os.Args) > 4); err != nil {
		fmt.Println("guest:", err)
		os.Exit(1)
	}
}

func guest(socket, address, name string, leave bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	d, err := transport.NewDomain(ctx, remote.New(remote.Config{Path: socket, Program: name}))
	if err != nil {
		return err
	}
	told := make(chan string, 1)
	tm, err := d.Open(ctx, address, func(e *transport.TMEvent) {
		if g, ok := e.Diagnostic.(remote.GoingDown); ok {
			told <- g.String()
		}
	})
	if err != nil {
		return err
	}
	h := &hosted{domain: d, tm: tm, events: make(chan event, 16)}
	in, err := h.add(ctx, transport.MsgRecv, 4096, nil, func(b *transport.Buffer) { b.MinReceiveSize, b.MaxMessages = 100, 2 })
	if err != nil {
		return err
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- tm.Await(ctx, transport.StateStopped) }()
	select {
	case words := <-told:
		fmt.Println("guest was told:", words)
	case err := <-failed:
		return err
	}
	if err := h.greetItself(ctx, address); err != nil {
		return err
	}
	if !leave {
		return <-failed
	}
	if err := tm.Shutdown(ctx); err != nil {
		return err
	}
	if err := d.Free(in); err != nil {
		return err
	}
	fmt.Println("guest has left")
	return nil
}

// greetItself sends a message to its own TM through lnetd's node.
func (h *hosted) greetItself(ctx context.Context, address string) error {
	peer, err := h.tm.EndPoint(address)
	if err != nil {
		return err
	}
	defer peer.Put()
	_, err = h.add(ctx, transport.MsgSend, 64, []byte("hello"), func(b *transport.Buffer) { b.Length, b.EndPoint = 5, peer })
	if err != nil {
		return err
	}
	for range 2 {
		e := <-h.events
		fmt.Printf("guest: %v of %d bytes: %v\n", e.queue, e.length, e.err)
	}
	return nil
}
