package lndtest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Headers: headers arrive as they were sent, in every bit. A driver uses only the type, the payload length and
// the destination Tx.To.
var headerCases = []scenario{
	{name: "Zero", nodes: 2, run: func(s *stage) {
		s.open(2)
		exchangeHeaders(s, func(uint64) uint64 { return 0 })
	}},
	{name: "Ones", nodes: 2, run: func(s *stage) {
		s.open(2)
		exchangeHeaders(s, func(most uint64) uint64 { return most })
	}},
	{name: "Random", nodes: 2, run: func(s *stage) {
		s.open(2)
		r := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			exchangeHeaders(s, func(most uint64) uint64 {
				if most == math.MaxUint64 {
					return r.Uint64()
				}
				return r.Uint64N(most + 1)
			})
		}
	}},
	{name: "ThroughRouters", nodes: 2, run: routedHeaders},
}

var messageTypes = []lnet.MsgType{lnet.MsgAck, lnet.MsgPut, lnet.MsgGet, lnet.MsgReply}

// exchangeHeaders sends one message of each type in both directions, and checks the headers that arrive. value
// returns the value of each field, given the largest possible one.
func exchangeHeaders(s *stage, value func(most uint64) uint64) {
	for k, from := range s.nodes {
		to := s.nodes[1-k]
		for _, t := range messageTypes {
			o := from.message(t, to, 0, 1)
			o.fields(value)
			s.awaitDelivered(to, from.send(o))
		}
	}
}

// fields sets the header fields that the message's type has to the results of value.
func (o *outgoing) fields(value func(most uint64) uint64) {
	h := &o.Header
	u32 := func() uint32 { return uint32(value(math.MaxUint32)) }
	u64 := func() uint64 { return value(math.MaxUint64) }
	h.Handle.Interface = u64()
	if h.Type == lnet.MsgReply {
		return
	}
	h.MatchBits = u64()
	switch h.Type {
	case lnet.MsgAck:
		h.Length = u32()
	case lnet.MsgPut:
		h.HdrData, h.Portal, h.Offset = u64(), u32(), u32()
	case lnet.MsgGet:
		h.Portal, h.Offset = u32(), u32()
		h.Length = uint32(value(lnet.MTU))
		o.sink = newGuarded(int(h.Length), 1)
		o.Sink = o.sink.memory()
	}
}

// routedHeaders sends messages whose source and destination are not the two ends of the connection, as routers
// do.
func routedHeaders(s *stage) {
	n := s.open(2)
	far := lnet.MakeNet(lnet.TypeO2IB, 7)
	var out []*outgoing
	for k, t := range messageTypes {
		o := n[0].message(t, n[1], 0, 1)
		o.Header.Src = lnet.NIDFromNumber(far, uint32(k+1))
		o.Header.SrcPID = 77
		o.Header.Dest = lnet.NIDFromNumber(far, 0xfffefdfc)
		o.Header.DestPID = lnet.PIDUserFlag | 5
		out = append(out, n[0].send(o))
	}
	s.awaitDelivered(n[1], out...)
}

// Payload: payloads arrive as they were sent. Their sizes are those at which drivers change the way of sending.
// They are sent as a PUT in one direction and as a REPLY in the other.
var payloadCases = func() []scenario {
	var cases []scenario
	for _, size := range []int{0, 1, 95, 96, 903, 904, 927, 928, 4095, 4096, 65536, lnet.MTU - 1, lnet.MTU} {
		cases = append(cases, scenario{name: fmt.Sprint(size), nodes: 2, run: func(s *stage) {
			n := s.open(2)
			for range 3 {
				put := n[0].put(n[1], size)
				reply := n[1].send(n[1].message(lnet.MsgReply, n[0], size, 1))
				s.awaitDelivered(n[1], put)
				s.awaitDelivered(n[0], reply)
			}
		}})
	}
	return append(cases, scenario{name: "Get", nodes: 2, run: getAnswered})
}()

// getAnswered sends a GET, which the other node answers as the driver requires: by Placement.Reply if the
// driver moves the payload itself (Rx.RDMA), and otherwise by a REPLY message.
func getAnswered(s *stage) {
	n := s.open(2)
	const size = 100_000
	var get *outgoing
	n[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
		p := a.keep(0)
		if a.rdma {
			g := newGuarded(size, 3)
			g.fill(a.id())
			p.Reply = g.memory()
		}
		return p, false, nil
	})
	get = n[0].message(lnet.MsgGet, n[1], 0, 1)
	get.Header.Length = size
	get.sink = newGuarded(size, 4)
	get.Sink = get.sink.memory()
	s.awaitDelivered(n[1], n[0].send(get))
	if !get.Replied {
		reply := n[1].message(lnet.MsgReply, n[0], size, 2)
		s.awaitDelivered(n[0], n[1].send(reply))
		return
	}
	if get.ReplyLength != size {
		s.t.Errorf("ReplyLength %d, want %d", get.ReplyLength, size)
	}
	if err := get.sink.checkPattern(get.id()); err != nil {
		s.t.Errorf("sink: %v", err)
	}
}
