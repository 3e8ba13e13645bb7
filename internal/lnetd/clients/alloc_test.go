//go:build !race

package clients

import (
	"testing"

	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// Steady traffic on any queue causes no allocations in lnetd.
func TestSubmissionsDoNotAllocate(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 64)
	in := o.register(protocol.Range{Area: o.memory.id, Length: 2048})
	operation := uint32(0)
	round := func() {
		operation++
		o.tm.submit(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1}, in, operation),
			of(to(shm.Submission{Opcode: shm.OpMsgSend, Length: 1}, o.tm.at), o.buffer, operation))
		for range 2 {
			if c := o.tm.next(); c.Errno != 0 {
				t.Fatalf("%+v", c)
			}
		}
	}
	least := testing.AllocsPerRun(200, round)
	for range 2 {
		least = min(least, testing.AllocsPerRun(200, round))
	}
	if least > 0 {
		t.Errorf("%v allocations per message", least)
	}
}
