package message

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
)

// codecs returns an empty message of each type.
func codecs() map[Type]codec {
	list := map[Type]codec{}
	for _, test := range golden {
		_, t, err := Peek(test.m.Append(nil))
		if err != nil {
			panic(err)
		}
		list[t] = fresh(test.m)
	}
	return list
}

// recorded calls f for each selftest message of a recording.
func recorded(t testing.TB, name string, f func(h *lnet.Header, b []byte)) {
	t.Helper()
	rec, err := recording.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rec.Conversations {
		units, err := c.Units()
		if err != nil {
			t.Fatal(err)
		}
		for k := range units {
			u := &units[k]
			if u.Kind == recording.KindMessage && u.Header.Type == lnet.MsgPut &&
				u.Header.Portal >= TestPortal && u.Header.Portal <= ReplyPortal && len(u.Payload) == Size {
				f(&u.Header, u.Payload)
			}
		}
	}
}

// Given all recorded messages of kernels, when they are decoded and encoded again, then their bodies are
// unchanged. They were sent to the portals and match bits of their services.
//
// selftest 1 messages, 2.1, 2.3, 2.3.1, 2.3.2
func TestRecordedMessages(t *testing.T) {
	total := map[string]int{}
	for _, name := range []string{
		"d-lst-ping", "e-lst-brw-write-1m", "e-lst-brw-write-4k", "e4-min-bulk-threshold", "f-lst-brw-read-1m",
		"f-lst-brw-read-4k", "i-routed-tcp-tcp1",
	} {
		recorded(t, name, func(h *lnet.Header, b []byte) {
			_, typ, err := Peek(b)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			m := codecs()[typ]
			if m == nil {
				t.Fatalf("%s: %v", name, typ)
			}
			if err := m.Decode(b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			total[typ.String()]++
			if q, ok := m.(Request); ok {
				if h.Portal != q.Service().Portal() || h.MatchBits != uint64(q.Service()) {
					t.Errorf("%s: %v came to portal %d, %#x", name, typ, h.Portal, h.MatchBits)
				}
			} else if h.Portal != ReplyPortal {
				t.Errorf("%s: %v came to portal %d", name, typ, h.Portal)
			}
			// Bytes after the body are undefined.
			end := bodyEnd(typ, m)
			if again := m.Append(nil); !bytes.Equal(again[:end], b[:end]) {
				t.Errorf("%s: %v\n%x became\n%x", name, typ, b[:end], again[:end])
			}
		})
	}
	for _, name := range []string{"make session", "remove session", "test", "batch", "stat", "ping", "brw"} {
		if q, r := total[name+" request"], total[name+" reply"]; q == 0 || q != r {
			t.Errorf("%d %s requests, %d replies", q, name, r)
		}
	}
}

// bodyEnd returns where the body of a message ends (selftest 2.3). In a reply with a status, everything
// after the session is undefined.
func bodyEnd(t Type, m codec) int {
	ends := map[Type]int{
		TypeDebugRequest: 52, TypeMakeSessionRequest: 84, TypeRemoveSessionRequest: 48, TypeBatchRequest: 68,
		TypeTestRequest: 94, TypeStatRequest: 52, TypeJoinRequest: 80, TypeBRWRequest: 52, TypePingRequest: 56,
		TypeDebugRequest.Reply(): 84, TypeMakeSessionRequest.Reply(): 48, TypeRemoveSessionRequest.Reply(): 44,
		TypeBatchRequest.Reply(): 52, TypeTestRequest.Reply(): 44, TypeStatRequest.Reply(): 160,
		TypeJoinRequest.Reply(): 80, TypeBRWRequest.Reply(): 28, TypePingRequest.Reply(): 36,
	}
	if q, ok := m.(*TestRequest); ok && q.Tests == ServicePing {
		return 90
	}
	return ends[t]
}

// Given the recorded ping session, when its messages are decoded in order, then they match the notes
// taken during the recording.
//
// selftest 2.3, 2.3.1
func TestRecordedPingSession(t *testing.T) {
	var got []string
	recorded(t, "d-lst-ping", func(_ *lnet.Header, b []byte) {
		_, typ, _ := Peek(b)
		m := codecs()[typ]
		if err := m.Decode(b); err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *MakeSessionRequest:
			got = append(got, fmt.Sprintf("make %v %v %#x", m.Session, m.Name, m.ReplyID))
		case *MakeSessionReply:
			got = append(got, fmt.Sprintf("made %v timeout %d name %q", m.Status, m.Timeout, m.Name))
		case *TestRequest:
			got = append(got, fmt.Sprintf("test %v loop %d concurrency %d client %t stop %t destinations %d bulk %#x",
				m.Tests, m.Loop, m.Concurrency, m.Client, m.StopOnError, m.Destinations, m.BulkID))
		case *BatchRequest:
			got = append(got, fmt.Sprintf("batch %d %v %d %d", m.Batch, m.Op, m.Test, m.Arg))
		case *StatReply:
			got = append(got, fmt.Sprintf("stat sent %d received %d got %d", m.RPC.Sent, m.RPC.Received, m.RPC.BulkGet))
		case *RemoveSessionReply:
			got = append(got, fmt.Sprintf("removed %v %v", m.Status, m.Session))
		}
	})
	want := []string{
		"make 34844@10.77.0.13@tcp t311 0x2725000000000001",
		"made ok timeout 100 name \"\"",
		"test ping loop 5 concurrency 2 client true stop true destinations 1 bulk 0x2725000000000005",
		"batch 2 run 0 0", "batch 2 query 0 0", "batch 2 stop 0 0", "batch 2 query 0 0",
		"stat sent 10 received 7 got 12",
		"removed ok no session",
		"make 34844@10.77.0.13@tcp t311 0x2725000000000002",
		"made ok timeout 100 name \"\"",
		"test ping loop 2 concurrency 2 client false stop true destinations 0 bulk 0x0",
		"stat sent 0 received 13 got 0",
		"removed ok no session",
		"make 39050@10.77.0.11@tcp t311 0x271600000000000c",
		"made ok timeout 100 name \"\"",
		"test ping loop 1 concurrency 1 client false stop true destinations 0 bulk 0x0",
		"stat sent 0 received 20 got 0",
		"removed ok no session",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
