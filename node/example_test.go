package node_test

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A PUT to the node itself, with an acknowledgement that the caller waits for.
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
	_, err = n.Attach(node.Entry{Portal: 30, MatchBits: 7}, node.MD{
		Bytes: inbox, Threshold: node.Unlimited, Options: node.OpPut | node.Truncate,
		Handler: node.HandlerFunc(func(e *node.Event) {
			fmt.Printf("%s from %s: %s\n", e.Type, e.Source, e.Bytes[e.Offset:e.Offset+e.Length])
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The sending side: memory, and a queue for its events.
	acks := node.NewEventQueue(node.EventsOf(node.EventAck))
	h, err := n.Bind(node.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true, Handler: acks})
	if err != nil {
		fmt.Println(err)
		return
	}
	to := lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}
	if err := n.Put(h, to, node.PutOptions{Portal: 30, MatchBits: 7, Ack: true}); err != nil {
		fmt.Println(err)
		return
	}
	var e node.Event
	if err := acks.Next(ctx, &e); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %d bytes taken\n", e.Type, e.Length)
	// Output:
	// PUT from 12345-0@lo: hello
	// ACK: 5 bytes taken
}

// A GET from the node itself.
func ExampleNode_Get() {
	ctx := context.Background()
	n, err := node.New(node.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = n.Close(ctx) }()

	_, err = n.Attach(node.Entry{Portal: 30}, node.MD{
		Bytes: []byte("the answer"), Threshold: node.Unlimited, Options: node.OpGet | node.ManageRemote,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	sink := make([]byte, 6)
	replies := node.NewEventQueue(node.EventsOf(node.EventReply))
	h, err := n.Bind(node.MD{Bytes: sink, Threshold: 2, Unlink: true, Handler: replies})
	if err != nil {
		fmt.Println(err)
		return
	}
	to := lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}
	if err := n.Get(h, to, node.GetOptions{Portal: 30, Offset: 4}); err != nil {
		fmt.Println(err)
		return
	}
	var e node.Event
	if err := replies.Next(ctx, &e); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s\n", e.Type, sink[:e.Length])
	// Output:
	// REPLY: answer
}
