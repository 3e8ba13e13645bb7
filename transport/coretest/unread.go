package coretest

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/transport"
)

// unreadMessages sends two buffers full of messages to a TM that delivers no event until all have been sent.
// Every message arrives once. Networks with several connections to a peer may change the order. Programs like Motr add
// two buffers of 10240 messages.
//
// r.net.xprt.lnet.growable-event-queue, transport 9.5
func unreadMessages(s *stage) {
	const size, sending = 8, 32
	perBuffer := 10240
	if s.h.Bubble != nil {
		perBuffer = 640 // simulated networks are slow
	}
	messages := 2 * perBuffer
	a, b := s.synchronous(), s.machine(1)
	for range 2 {
		in := a.buffer(perBuffer * size)
		a.receive(in, size, perBuffer)
	}
	var outs []*transport.Buffer
	for range sending {
		outs = append(outs, b.buffer(size))
	}
	for i := range messages {
		out := outs[i%sending]
		if i >= sending {
			b.expect(out)
		}
		out.CopyIn(0, binary.LittleEndian.AppendUint64(nil, uint64(i)))
		b.send(out, size, a)
	}
	for i := range sending {
		b.expect(outs[(messages+i)%sending])
	}
	if len(a.events) > 1 { // the start of the TM
		s.t.Errorf("%d events were delivered early", len(a.events))
	}
	a.deliverInAll(messages)
	seen := make([]bool, messages)
	arrived := 0
	for i := range a.events {
		e := &a.events[i]
		if e.buffer == nil {
			continue
		}
		var text [size]byte
		e.buffer.CopyOut(e.offset, text[:])
		n := int(binary.LittleEndian.Uint64(text[:]))
		if e.err != nil || e.length != size || n >= messages || seen[n] {
			s.t.Fatalf("event %d has message %d, which is too large or has come before: %v", arrived, n, e)
		}
		seen[n] = true
		arrived++
	}
	if arrived != messages {
		s.t.Errorf("%d messages of %d", arrived, messages)
	}
	a.stats(transport.MsgRecv, 2, 0, uint64(messages), 0)
}
