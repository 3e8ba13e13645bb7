package selftest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// One node asks another node with an agent to join a session.
func ExampleEnable() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fabric := simlnd.New(simlnd.Config{})
	defer fabric.Close()

	server, closeServer := start(ctx, fabric, "10.0.0.1")
	defer closeServer()
	agent, err := selftest.Enable(server, selftest.Config{})
	if err != nil {
		log.Panic(err)
	}
	defer closing(ctx, agent)

	console, closeConsole := start(ctx, fabric, "10.0.0.2")
	defer closeConsole()
	client := rpc.New(console, rpc.Config{})
	defer closing(ctx, client)

	nid, _ := message.NID4Of(console.NID())
	var reply message.MakeSessionReply
	err = client.Call(ctx, lnet.ProcessID{NID: server.NID(), PID: lnet.PIDLustre}, &message.MakeSessionRequest{
		Header:  message.NewHeader(message.BulkLength),
		Session: message.SessionID{NID: nid, Stamp: 1},
		Name:    message.NameOf("example"),
	}, &reply, rpc.Bulk{})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(reply.Status, reply.Session, reply.Timeout)
	// Output: ok 1@10.0.0.2@tcp 100
}

func closing(ctx context.Context, c interface{ Close(context.Context) error }) {
	if err := c.Close(ctx); err != nil {
		log.Panic(err)
	}
}

func start(ctx context.Context, fabric *simlnd.Fabric, address string) (*node.Node, func()) {
	d, err := simlnd.NewDriver(fabric.Host(address, address), socklnd.DefaultConfig())
	if err != nil {
		log.Panic(err)
	}
	n, err := node.New(node.Config{})
	if err != nil {
		log.Panic(err)
	}
	net := lnet.MakeNet(lnet.TypeTCP, 0)
	nid := lnet.NIDFromIP(net, netip.MustParseAddr(address))
	if _, err := n.AddNI(ctx, d, lnd.Config{Net: net, NID: nid}); err != nil {
		log.Panic(err)
	}
	return n, func() {
		if err := errors.Join(n.Close(ctx), d.Close()); err != nil {
			log.Panic(err)
		}
	}
}
