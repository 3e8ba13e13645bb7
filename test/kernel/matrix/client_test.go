//go:build o2ib && cgo

package matrix

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// A GET from a kernel's memory, into the maximum number of pieces.
//
// o2iblnd 10.3 (1)
func TestGetsFromAKernel(t *testing.T) {
	sinks := [][]uint32{{lnet.MTU}, {100, lnet.MTU - 5000, 4900}, slices.Repeat([]uint32{lnet.MTU / 256}, 256)}
	k := newConsole(newPeer(t).connect())
	k.run(message.BRWWrite, 1, uint32(len(sinks)))
	for _, lengths := range sinks {
		q := k.request()
		m := k.message(protocol.GetReq)
		k.returnCredits(&m)
		m.Cookie, m.Sink, m.LNet = 4713, k.sink(lengths...), k.header(lnet.MsgGet)
		m.LNet.Portal, m.LNet.MatchBits, m.LNet.Length = message.ReplyPortal, q.BulkID, lnet.MTU
		clear(k.at(0, connSize-bulkAt))
		k.sendMessage(&m)
		if got := k.p.next(); got.Type != protocol.GetDone || got.Cookie != 4713 || got.Status != lnet.MTU {
			t.Fatalf("%d pieces: %+v", len(lengths), got)
		}
		if err := pattern.Check(k.found(lengths...), message.CheckFull, message.LittleEndian); err != nil {
			t.Errorf("%d pieces: %v", len(lengths), err)
		}
		k.answer(&q)
	}
	k.end()
}

// PUTs into a kernel's memory, 7 at a time, which end in a different order. The kernel may answer
// the first of them before it has made its last request.
//
// o2iblnd 10.2 (5)
func TestPutsToAKernel(t *testing.T) {
	const atOnce = 7
	k := newConsole(newPeer(t).connect())
	pattern.Fill(k.at(0, lnet.MTU), message.LittleEndian)
	k.run(message.BRWRead, atOnce, 1)
	var requests [atOnce]message.BRWRequest
	var acks [atOnce]protocol.Message
	for n := range requests {
		requests[n] = k.request()
		m := k.message(protocol.PutReq)
		k.returnCredits(&m)
		m.Cookie, m.LNet = protocol.Cookie(100+n), k.header(lnet.MsgPut)
		m.LNet.Portal, m.LNet.MatchBits, m.LNet.Handle = message.ReplyPortal, requests[n].BulkID, lnet.NoHandle
		m.LNet.PayloadLength = lnet.MTU
		k.sendMessage(&m)
	}
	for range acks {
		m := k.putAck()
		if m.Sink.Length() != lnet.MTU || len(m.Sink.Fragments) != 1 || m.Cookie < 100 || m.Cookie >= 100+atOnce {
			t.Fatalf("%+v", m)
		}
		acks[m.Cookie-100] = m
	}
	for n := atOnce - 1; n >= 0; n-- {
		m := k.message(protocol.PutDone)
		k.returnCredits(&m)
		m.Cookie, m.Status = acks[n].SinkCookie, lnet.MTU
		k.write(0, acks[n].Sink.Fragments, k.p.encoded(&m, little), acks[n].Sink.Key)
		k.answer(&requests[n])
	}
	k.end()
}
