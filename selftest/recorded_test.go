package selftest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// exchanges returns the recorded requests of a console in order, and the replies by match bits.
func exchanges(t *testing.T, name, from string) (requests []recording.TimedUnit, replies map[uint64][]byte, lists map[lnet.Handle][]byte) {
	t.Helper()
	rec, err := recording.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	replies, lists = map[uint64][]byte{}, map[lnet.Handle][]byte{}
	for _, c := range rec.Conversations {
		units, err := c.Units()
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range units {
			switch h := &u.Header; {
			case u.Kind != recording.KindMessage:
			case h.Type == lnet.MsgPut && h.Portal == message.FrameworkPortal && h.Src.String() == from:
				requests = append(requests, u)
			case h.Type == lnet.MsgPut && h.Portal == message.ReplyPortal && len(u.Payload) == message.Size:
				replies[h.MatchBits] = u.Payload
			case h.Type == lnet.MsgReply && len(u.Payload) == message.DestinationSize:
				lists[h.Handle] = u.Payload
			}
		}
	}
	slices.SortFunc(requests, func(a, b recording.TimedUnit) int {
		return cmp.Compare(message.ReplyID(a.Payload), message.ReplyID(b.Payload))
	})
	return requests, replies, lists
}

// Given the recorded requests of a kernel console, when they are sent unchanged to nodes with the
// recorded NIDs, then the answers are those of the kernel nodes, except for the time and LNet's own
// counters.
//
// selftest 1 messages, 2.3, 3 server (1), 3 counters
func TestRecordedConsole(t *testing.T) {
	requests, want, lists := exchanges(t, "d-lst-ping", "10.77.0.13@tcp")
	if len(requests) != 12 || len(lists) != 1 {
		t.Fatalf("%d requests, %d lists of destinations", len(requests), len(lists))
	}
	onStage(t, func(t *testing.T, s *stage) {
		console := s.player("console", "10.77.0.13")
		nodes := map[string]*player{}
		for _, address := range []string{"10.77.0.11", "10.77.0.12"} {
			p := s.player(address, address).agent(Config{})
			nodes[p.id.NID.String()] = p
		}
		var mu sync.Mutex
		got := map[uint64][]byte{}
		buffer := make([]byte, 64*message.Size)
		if _, err := console.node.Attach(portals.Entry{Portal: message.ReplyPortal, IgnoreBits: ^uint64(0)}, portals.MD{
			Bytes: buffer, Threshold: portals.Unlimited, Options: portals.OpPut,
			Handler: portals.HandlerFunc(func(e *portals.Event) {
				mu.Lock()
				defer mu.Unlock()
				got[e.MatchBits] = e.Data()
			}),
		}); err != nil {
			t.Fatal(err)
		}
		for _, list := range lists {
			if _, err := console.node.Attach(portals.Entry{Portal: message.ReplyPortal, IgnoreBits: ^uint64(0)}, portals.MD{
				Bytes: list, Threshold: 1, Unlink: true, Options: portals.OpGet,
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range requests {
			to := nodes[u.Header.Dest.String()]
			_, err := console.node.PutWait(context.Background(), u.Payload, to.id, node.PutOptions{
				Portal: u.Header.Portal, MatchBits: u.Header.MatchBits,
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			id := message.ReplyID(u.Payload)
			mu.Lock()
			compareReplies(t, message.Service(u.Header.MatchBits), got[id], want[id])
			mu.Unlock()
		}
	})
}

// compareReplies compares two replies.
func compareReplies(t *testing.T, s message.Service, got, want []byte) {
	t.Helper()
	ends := map[message.Service]int{
		message.ServiceMakeSession: 80, message.ServiceRemoveSession: 44, message.ServiceTest: 44,
		message.ServiceBatch: 52, message.ServiceStat: 100,
	}
	end := ends[s]
	if len(got) != message.Size || len(want) != message.Size || end == 0 {
		t.Fatalf("%v: %d bytes, recorded %d", s, len(got), len(want))
	}
	if s == message.ServiceMakeSession {
		end = 49 // compare only the first byte of the name: it is empty
	}
	got, want = slices.Clone(got[:end]), slices.Clone(want[:end])
	if s == message.ServiceStat {
		copy(got[44:48], want[44:48])
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%v:\n%x, kernels say\n%x", s, got, want)
	}
}
