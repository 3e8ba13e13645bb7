package inproc_test

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// Two nodes in one process have a transfer machine each: one sends a message, and the other receives it.
// All nodes of a net listen on the same port, here a free one.
func Example() {
	port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2")
	if err == nil {
		err = talk(context.Background(), port)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: "hello" from 127.0.0.1@tcp:12345:30:4095
}

func talk(ctx context.Context, port int) error {
	var tms [2]*transport.TransferMachine
	var buffers [2]*transport.Buffer
	for k, tmid := range []string{"*", "1"} {
		driver, err := socklnd.New(socklnd.UnprivilegedConfig(port))
		if err != nil {
			return err
		}
		nid := fmt.Sprintf("127.0.0.%d@tcp", k+1)
		n, err := node.Start(ctx, node.Config{}, driver, nid)
		if err != nil {
			return err
		}
		defer closing(ctx, n)
		d, err := transport.NewDomain(ctx, inproc.New(n))
		if err != nil {
			return err
		}
		if tms[k], err = d.Open(ctx, nid+":12345:30:"+tmid, nil); err != nil {
			return err
		}
		defer ending(ctx, tms[k]) // before its node
		if buffers[k], err = d.Buffer(ctx, 4096); err != nil {
			return err
		}
	}
	from, at, out, in := tms[0], tms[1], buffers[0], buffers[1]

	ended := make(chan error, 2)
	in.Queue, in.MinReceiveSize, in.MaxMessages = transport.MsgRecv, in.Size(), 1
	in.Callbacks = &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) {
		if e.Err == nil {
			fmt.Printf("%q from %v\n", e.Bytes(), e.EndPoint)
		}
		ended <- e.Err
	}}
	if err := at.Add(in); err != nil {
		return err
	}
	to, err := from.EndPointAt(at.Self().Address())
	if err != nil {
		return err
	}
	defer to.Put()
	out.Queue, out.EndPoint, out.Length = transport.MsgSend, to, out.CopyIn(0, []byte("hello"))
	out.Callbacks = &transport.Callbacks{transport.MsgSend: func(e *transport.BufferEvent) { ended <- e.Err }}
	if err := from.Add(out); err != nil {
		return err
	}
	if err := <-ended; err != nil { // final event of the send and of the receive buffer
		return err
	}
	return <-ended
}

func ending(ctx context.Context, tm *transport.TransferMachine) {
	if err := tm.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
}

func closing(ctx context.Context, n *node.Node) {
	if err := n.Close(ctx); err != nil {
		fmt.Println(err)
	}
}
