package console_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/console"
)

// A console has a client send ten pings to a server, and waits until the test has ended. The nodes are in memory here; on
// other nodes, kernels included, selftest must be enabled.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fabric := simlnd.New(simlnd.Config{})
	defer fabric.Close()
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		_, _, end := start(ctx, fabric, address)
		defer end()
	}
	n, agent, end := start(ctx, fabric, "10.0.0.3")
	defer end()
	c := console.New(n, agent, console.Config{})
	if err := test(ctx, c); err != nil {
		log.Panic(err)
	}
	if err := c.Close(ctx); err != nil { // ends the session
		log.Panic(err)
	}
	// Output:
	// the clients have ended
}

func test(ctx context.Context, c *console.Console) error {
	session, err := c.NewSession(ctx, console.SessionOptions{Name: "example"})
	if err != nil {
		return err
	}
	key := session.Key
	for group, nid := range map[string]string{"clients": "10.0.0.1@tcp", "servers": "10.0.0.2@tcp"} {
		if _, err := c.AddGroup(ctx, key, group, []string{nid}); err != nil {
			return err
		}
	}
	added, err := c.AddTest(ctx, key, console.Test{
		Batch: "batch", From: "clients", To: "servers", Kind: console.PingTest,
		Loop: 10, Concurrency: 1, Distribute: 1, Span: 1,
	})
	if err != nil || !added.OK() {
		return fmt.Errorf("add test: %+v: %w", added, err)
	}
	started, err := c.Run(ctx, key, "batch", 0)
	if err != nil || !started.OK() {
		return fmt.Errorf("run: %+v: %w", started, err)
	}
	for {
		q, err := c.Query(ctx, key, "batch", console.QueryOptions{})
		if err != nil {
			return err
		}
		if q.Running == 0 {
			fmt.Println("the clients have ended")
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// start starts a node with an agent.
func start(ctx context.Context, fabric *simlnd.Fabric, address string) (*node.Node, *selftest.Agent, func()) {
	driver, err := simlnd.NewDriver(fabric.Host(address, address), socklnd.DefaultConfig())
	if err != nil {
		log.Panic(err)
	}
	n, err := node.Start(ctx, node.Config{}, driver, address+"@tcp")
	if err != nil {
		log.Panic(err)
	}
	agent, err := selftest.Enable(n, selftest.Config{})
	if err != nil {
		log.Panic(err)
	}
	return n, agent, func() {
		if err := errors.Join(agent.Close(ctx), n.Close(ctx), driver.Close()); err != nil {
			log.Panic(err)
		}
	}
}
