package simlnd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Two nodes run on a network in memory. One cannot reach the other during a partition.
func Example() {
	ctx := context.Background()
	fabric := simlnd.New(simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: time.Millisecond}})
	defer fabric.Close()
	a, b := fabric.Host("a", "10.0.0.1"), fabric.Host("b", "10.0.0.2")
	from, closeFrom := start(ctx, a, "10.0.0.1@tcp")
	defer closeFrom()
	to, closeTo := start(ctx, b, "10.0.0.2@tcp")
	defer closeTo()

	ping := func(patience time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := from.Ping(ctx, lnet.ProcessID{NID: to.NID()}, node.PingOptions{})
		fmt.Println("reachable:", err == nil)
	}
	ping(time.Minute)
	fabric.Partition(a, b, simlnd.Both)
	ping(50 * time.Millisecond)
	fabric.Heal(a, b, simlnd.Both)
	ping(time.Minute)
	// Output:
	// reachable: true
	// reachable: false
	// reachable: true
}

func start(ctx context.Context, host *simlnd.Host, nid string) (*node.Node, func()) {
	driver, err := simlnd.NewDriver(host, socklnd.DefaultConfig())
	if err != nil {
		log.Panic(err)
	}
	n, err := node.Start(ctx, node.Config{}, driver, nid)
	if err != nil {
		log.Panic(err)
	}
	return n, func() {
		if err := n.Close(ctx); err != nil {
			log.Panic(err)
		}
		if err := driver.Close(); err != nil {
			log.Panic(err)
		}
	}
}
