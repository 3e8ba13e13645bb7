package node_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// A PUT to the node itself, with an acknowledgement for which the caller waits.
func ExampleNode_Put() {
	ctx := context.Background()
	n, err := node.New(node.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = n.Close(ctx) }()

	// The receiving side: memory on portal 30, and a handler.
	inbox := make([]byte, 64)
	_, err = n.Attach(portals.Entry{Portal: 30, MatchBits: 7}, portals.MD{
		Bytes: inbox, Threshold: portals.Unlimited, Options: portals.OpPut | portals.Truncate,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			fmt.Printf("%s from %s: %s\n", e.Type, e.Source, e.Data())
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The sending side: memory, and a queue for its events.
	acks := node.NewEventQueue(node.EventsOf(portals.EventAck))
	h, err := n.Bind(portals.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true, Handler: acks})
	if err != nil {
		fmt.Println(err)
		return
	}
	to := lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}
	if err := n.Put(h, to, node.PutOptions{Portal: 30, MatchBits: 7, Ack: true}); err != nil {
		fmt.Println(err)
		return
	}
	var e portals.Event
	if err := acks.Next(ctx, &e); err != nil || e.Err != nil { // errors are delivered here too
		fmt.Println(err, e.Err)
		return
	}
	fmt.Printf("%s: %d bytes taken\n", e.Type, e.Length)
	// Output:
	// PUT from 12345-0@lo: hello
	// ACK: 5 bytes taken
}

// A GET for which the caller waits.
func ExampleNode_GetWait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := node.New(node.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = n.Close(ctx) }()

	_, err = n.Attach(portals.Entry{Portal: 30}, portals.MD{
		Bytes: []byte("the answer"), Threshold: portals.Unlimited, Options: portals.OpGet | portals.ManageRemote,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	sink := make([]byte, 6)
	to := lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}
	length, err := n.GetWait(ctx, sink, to, node.GetOptions{Portal: 30, Offset: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", sink[:length])
	// Output:
	// answer
}
