package mem_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// Two hosts exchange a message in memory. On this strict network, a message to an address without a receiver is an
// error.
func Example() {
	ctx := context.Background()
	network := mem.New(mem.Config{Strict: true})
	a := messenger(ctx, network, "10.0.0.1@tcp")
	defer closing(a)
	b := messenger(ctx, network, "10.0.0.2@tcp")
	defer closing(b)

	if err := a.Send(ctx, b.Addr(), []byte("hello")); err != nil {
		log.Panic(err)
	}
	msg, err := b.Receive(ctx)
	if err != nil {
		log.Panic(err)
	}
	fmt.Printf("%q from %v\n", msg.Data, msg.From)

	nowhere := b.Addr()
	nowhere.TMID++
	fmt.Println(errors.Is(a.Send(ctx, nowhere, []byte("hello")), syscall.ENETUNREACH))
	// Output:
	// "hello" from 10.0.0.1@tcp:12345:34:1
	// true
}

func messenger(ctx context.Context, network *mem.Network, text string) *transport.Messenger {
	nid, err := lnet.ParseNID(text)
	if err != nil {
		log.Panic(err)
	}
	m, err := transport.OpenMessenger(ctx, network.Host(nid), text+":12345:34:1")
	if err != nil {
		log.Panic(err)
	}
	return m
}

func closing(m *transport.Messenger) {
	if err := m.Close(); err != nil {
		log.Panic(err)
	}
}
