package portals_test

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// A PUT arrives and matches an MD. The caller of the table, usually a node, fills the memory. Programs use
// Node.Attach and see only the event.
func Example() {
	table := portals.New(portals.Config{Cookie: 1})
	_, _, _, err := table.Attach(portals.Entry{Portal: 30, MatchBits: 7}, portals.MD{
		Bytes: make([]byte, 64), Threshold: 1, Unlink: true, Options: portals.OpPut,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			fmt.Printf("%v from %v: %q, last event: %t\n", e.Type, e.Initiator, e.Data(), e.Unlinked)
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	nid, err := lnet.ParseNID("10.0.0.2@tcp")
	if err != nil {
		fmt.Println(err)
		return
	}

	payload := []byte("hello")
	for range 2 { // the MD accepts one PUT
		put := portals.Operation{Length: len(payload), Event: portals.Event{
			Type: portals.EventPut, Portal: 30, MatchBits: 7,
			Initiator: lnet.ProcessID{NID: nid, PID: lnet.PIDLustre},
		}}
		if table.Match(&put) != portals.Accept {
			fmt.Println("dropped, because no entry matches:", put.Cause == portals.CauseNoMatch)
			continue
		}
		put.Memory().CopyFrom(payload)
		table.Finish(&put, nil)
	}
	// Output:
	// PUT from 12345-10.0.0.2@tcp: "hello", last event: true
	// dropped, because no entry matches: true
}
