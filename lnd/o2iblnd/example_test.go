package o2iblnd_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Two nodes run over RDMA in memory, and one pings the other. Programs built with the tag o2ib get a provider for the
// devices of the machine from package rdmacore.
func Example() {
	ctx := context.Background()
	network := fabric.New(fabric.Config{})
	defer network.Close()
	from, closeFrom := start(ctx, network.Host("a"), "10.0.0.1")
	defer closeFrom()
	to, closeTo := start(ctx, network.Host("b"), "10.0.0.2")
	defer closeTo()

	info, err := from.Ping(ctx, lnet.ProcessID{NID: to.NID()}, node.PingOptions{})
	if err != nil {
		log.Panic(err)
	}
	for _, ni := range info.NIs {
		fmt.Println(ni.NID, ni.Status)
	}
	// Output: 10.0.0.2@o2ib up
}

func start(ctx context.Context, host *fabric.Host, address string) (*node.Node, func()) {
	host.AddDevice(address)
	process := host.Open()
	c := o2iblnd.DefaultConfig()
	c.Provider, c.Host = process, host
	driver, err := o2iblnd.New(c)
	if err != nil {
		log.Panic(err)
	}
	n, err := node.Start(ctx, node.Config{}, driver, address+"@o2ib")
	if err != nil {
		log.Panic(err)
	}
	return n, func() {
		if err := errors.Join(n.Close(ctx), driver.Close(), process.Close()); err != nil {
			log.Panic(err)
		}
	}
}
