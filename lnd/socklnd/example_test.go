package socklnd_test

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Two nodes run in one process, on different addresses. One sends a message to the other. All nodes
// of a net listen on the same port; here it is a free one.
func Example() {
	port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2")
	if err == nil {
		err = talk(context.Background(), port)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 5 bytes were taken
	// "hello" from 12345-127.0.0.1@tcp
}

func closing(ctx context.Context, n *node.Node) {
	if err := n.Close(ctx); err != nil {
		fmt.Println(err)
	}
}

func talk(ctx context.Context, port int) error {
	var nodes [2]*node.Node
	for k := range nodes {
		driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
		if err != nil {
			return err
		}
		n, err := node.Start(ctx, node.Config{}, driver, fmt.Sprintf("127.0.0.%d@tcp", k+1))
		if err != nil {
			return err
		}
		nodes[k] = n
		defer closing(ctx, n)
	}
	from, at := nodes[0], nodes[1]

	inbox, err := at.OpenInbox(node.InboxConfig{Portal: 30})
	if err != nil {
		return err
	}
	to := lnet.ProcessID{NID: at.NID()}
	taken, err := from.PutWait(ctx, []byte("hello"), to, node.PutOptions{Portal: 30, Ack: true})
	if err != nil {
		return err
	}
	fmt.Println(taken, "bytes were taken")

	m, err := inbox.Next(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%q from %s\n", m.Data, m.Initiator)
	m.Release()
	return nil
}
