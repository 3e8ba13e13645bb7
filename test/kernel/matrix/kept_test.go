package matrix

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// kept are messages of a kernel that a test looks at later. Requests for bulk and PUT_ACKs come in any
// order: a kernel that is quick answers the first PUT_REQ before it has made its last request.
type kept struct {
	requests []message.BRWRequest
	acks     []protocol.Message
}

// keep keeps a request or a PUT_ACK. The error says why m is neither.
func (k *kept) keep(m *protocol.Message) error {
	if m.Type == protocol.PutAck {
		ack := *m
		ack.Sink.Fragments = slices.Clone(m.Sink.Fragments)
		k.acks = append(k.acks, ack)
		return nil
	}
	var q message.BRWRequest
	if err := q.Decode(m.Payload); err != nil {
		return err
	}
	k.requests = append(k.requests, q)
	return nil
}

// takeFirst removes the first of a list, which is not empty, and returns it.
func takeFirst[T any](list *[]T) T {
	first := (*list)[0]
	*list = (*list)[1:]
	return first
}

// Requests and PUT_ACKs are kept apart, each kind in its order, whatever the order in which they come.
func TestKeptInAnyOrder(t *testing.T) {
	request := func(id uint64) protocol.Message {
		q := message.BRWRequest{Header: message.NewHeader(message.BulkLength), BulkID: id, Length: lnet.MTU}
		return protocol.Message{Type: protocol.Immediate, Payload: q.Append(nil)}
	}
	ack := func(c protocol.Cookie) protocol.Message {
		return protocol.Message{Type: protocol.PutAck, Cookie: c, Sink: protocol.Descriptor{Fragments: []protocol.Fragment{{Length: lnet.MTU}}}}
	}
	for _, messages := range [][]protocol.Message{
		{request(1), request(2), request(3), ack(7), ack(8)},
		{request(1), ack(7), request(2), ack(8), request(3)},
		{ack(7), ack(8), request(1), request(2), request(3)},
	} {
		var k kept
		for n := range messages {
			if err := k.keep(&messages[n]); err != nil {
				t.Fatal(err)
			}
			if f := messages[n].Sink.Fragments; len(f) > 0 {
				f[0].Length = 0 // the next message is decoded into the same memory
			}
		}
		var ids []uint64
		for len(k.requests) > 0 {
			ids = append(ids, takeFirst(&k.requests).BulkID)
		}
		var cookies []protocol.Cookie
		for len(k.acks) > 0 {
			m := takeFirst(&k.acks)
			cookies = append(cookies, m.Cookie)
			if m.Sink.Length() != lnet.MTU {
				t.Errorf("a sink of %d bytes", m.Sink.Length())
			}
		}
		if diff := cmp.Diff([]uint64{1, 2, 3}, ids) + cmp.Diff([]protocol.Cookie{7, 8}, cookies); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	var k kept
	if err := k.keep(&protocol.Message{Type: protocol.GetDone}); err == nil {
		t.Error("a GET_DONE counts as a request")
	}
}
