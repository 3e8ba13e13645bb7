package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// An urgent message goes before all that wait for credits. Urgent messages keep their order. They
// are recalled, timed out and completed like others.
func TestUrgentGoesFirst(t *testing.T) {
	s1, s2 := sessions(V2, 8, 256)
	c := NewConn(Options{})
	c.Accept()
	var b Batch
	c.Establish(start, s1, &b)
	header := lnet.Header{Dest: s1.Peer, Src: s1.Self, Type: lnet.MsgPut}
	txs := make([]Tx, 14)
	for k := range txs {
		txs[k].Urgent = k >= 11
		header.HdrData = uint64(k)
		c.Immediate(start, &txs[k], &header, &b)
	}
	var sent []uint64
	carry := func() {
		for k := range b.Sends {
			var m Message
			if _, err := m.Decode(b.Head(&b.Sends[k]), Check); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, m.LNet.HdrData)
		}
		slots := make([]int, len(b.Sends))
		for k := range b.Sends {
			slots[k] = b.Sends[k].Slot
		}
		b.Reset()
		for _, slot := range slots {
			c.Completed(start, slot, &b)
		}
	}
	carry()
	b.Reset()
	c.Recall(func(tx *Tx) bool { return tx == &txs[12] }, &b)
	if len(b.Done) != 1 || b.Done[0].Tx != &txs[12] || !b.Done[0].Recalled {
		t.Errorf("recalled: %+v", b.Done)
	}
	b.Reset()
	credits := Message{Version: V2, Type: Noop, Credits: 4, Src: s2.Self, SrcStamp: s2.SelfStamp, Dst: s2.Peer, DstStamp: s2.PeerStamp}
	c.Received(start, 0, wireOf(t, credits), &b)
	carry()
	if diff := cmp.Diff([]uint64{0, 1, 2, 3, 4, 5, 6, 7, 11, 13, 8, 9}, sent); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	txs[12].Urgent = true
	c.Immediate(start, &txs[12], &header, &b)
	if late := c.overdue(start.Add(2 * defaultTimeout)); late == nil {
		t.Error("an urgent message that waits has no end")
	}
	c.Close(broken("over"), &b)
	c.Flushed(&b)
	if len(b.Done) == 0 || c.urgent.head != nil {
		t.Error("an urgent message outlives its connection")
	}
}
