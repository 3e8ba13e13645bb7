// Command portal shows how a portal handles messages: which entry receives them, where
// in its memory they are stored, and what happens when the memory is full.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

const (
	portal = 30
	diary  = 1 // match bits
	slots  = 2
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	n, err := node.New(node.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(ctx)) }()

	// Both MDs below have the same handler.
	handler := portals.HandlerFunc(tell)

	// The diary stores PUTs one behind the other. Each is cut off after 4 bytes. The MD
	// is unlinked automatically when less than 4 bytes are left.
	if _, err := n.Attach(portals.Entry{Portal: portal, MatchBits: diary}, portals.MD{
		Bytes:     make([]byte, 16),
		Options:   portals.OpPut | portals.Truncate | portals.MaxSize,
		MaxSize:   4,
		Threshold: portals.Unlimited,
		Unlink:    true,
		Handler:   handler,
	}); err != nil {
		return err
	}
	// A PUT to the slots gives its own offset. A PUT that does not fit is dropped.
	if _, err := n.Attach(portals.Entry{Portal: portal, MatchBits: slots}, portals.MD{
		Bytes:     make([]byte, 16),
		Options:   portals.OpPut | portals.ManageRemote,
		Threshold: portals.Unlimited,
		Handler:   handler,
	}); err != nil {
		return err
	}

	put := func(bits uint64, offset uint32, text string) error {
		fmt.Printf("PUT %q, match bits %d, offset %d\n", text, bits, offset)
		h, err := n.Bind(portals.MD{Bytes: []byte(text), Threshold: 1, Unlink: true})
		if err != nil {
			return err
		}
		to := lnet.ProcessID{NID: lnet.LoopbackNID}
		return n.Put(h, to, node.PutOptions{Portal: portal, MatchBits: bits, Offset: offset})
	}
	err = errors.Join(
		put(diary, 0, "one,"),
		put(diary, 0, "two,"),
		put(diary, 0, "three"),
		put(diary, 0, "four"),
		put(diary, 0, "five"),
		put(slots, 12, "late"),
		put(slots, 0, "early"),
		put(slots, 14, "too late"),
	)
	fmt.Println("dropped:", n.Admin().Drops()[node.DropNoMatch], "without a match,", n.Admin().Drops()[node.DropTooLong], "too long")
	return err
}

// tell prints an event. For messages to 0@lo it runs within Put, otherwise in a goroutine
// of the driver. It must not block.
func tell(e *portals.Event) {
	fmt.Printf("  %s of %d bytes: %d at %d, %q", e.Type, e.Requested, e.Length, e.Offset, e.Data())
	if e.Unlinked {
		fmt.Print(", and that was the last")
	}
	fmt.Println()
}
