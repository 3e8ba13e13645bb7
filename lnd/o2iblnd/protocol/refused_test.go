package protocol

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
)

// Three kernels with different peer_credits (8, 16 and 32) connect to each other. If we replace the
// caller, our requests equal the recorded ones, including those after a recorded reject. If we
// replace the called node, our rejects and answers equal the recorded ones.
//
// o2iblnd 6 (3), 3.6 (1), 3.7
func TestRecordedRefusals(t *testing.T) {
	rec, err := recording.LoadRDMA("o2-o2ib-credits-mismatch")
	if err != nil {
		t.Fatal(err)
	}
	all := rec.Conversations
	// peer_credits of each node, by its address (from the notes beside the recording).
	depth := map[string]int{"10.77.0.11": 8, "10.77.0.12": 16, "10.77.0.13": 32}
	type event struct {
		call int
		*recording.Transfer
		made time.Time
	}
	var events []event
	stamps := map[string]uint64{} // incarnations of the nodes, from their messages
	for n, c := range all {
		for k := range c.Transfers[:2] {
			x := &c.Transfers[k]
			made := x.At
			var m Message
			if isMessage(x) {
				if _, err := m.Decode(x.Data, Check); err != nil {
					t.Fatal(err)
				}
				stamps[c.Addrs[x.From].String()] = m.SrcStamp
				if x.Kind == recording.CMRequest && m.DstStamp == 0 {
					made = made.Add(-100 * time.Millisecond)
				}
			}
			events = append(events, event{n, x, made})
		}
	}
	// A request without the called node's stamp was made before the first reject was read.
	slices.SortStableFunc(events, func(a, b event) int { return a.made.Compare(b.made) })
	peerings := map[string]*Peering{} // by pair of nodes
	recorded, requests := make([]Message, len(all)), make([]Message, len(all))
	var rejected, accepted []int
	for _, e := range events {
		c, m := all[e.call], &recorded[e.call]
		caller, called := c.Addrs[recording.Active].String(), c.Addrs[recording.Passive].String()
		p := peerings[caller+called]
		if p == nil {
			p = &Peering{}
			peerings[caller+called] = p
		}
		l := Listener{NIs: []Self{{NID: m.Dst, Stamp: stamps[called], Depth: depth[called], Fragments: MaxFragments}}}
		var heard, ack, ours Message
		switch e.Kind {
		case recording.CMRequest:
			if _, err := m.Decode(e.Data, Check); err != nil {
				t.Fatal(err)
			}
			self := Self{NID: m.Src, Stamp: m.SrcStamp, Depth: depth[caller], Fragments: MaxFragments}
			p.Request(&self, m.Dst, &requests[e.call])
			want := *m
			want.Params.Fragments = MaxOffered // so that no version needs a second attempt (o2iblnd 15)
			if diff := cmp.Diff(wireOf(t, want), wireOf(t, requests[e.call])); diff != "" {
				t.Errorf("call %d of %s by %s (-want +got):\n%s", e.call, called, caller, diff)
			}
		case recording.CMReject:
			rejected = append(rejected, e.call)
			_, reject, err := l.Judge(1023, wireOf(t, *m), &heard)
			if err == nil || !bytes.HasPrefix(e.Data, reject.Append(nil, order)) {
				t.Errorf("call %d is rejected with\n% x, want\n% x (%v)", e.call, reject.Append(nil, order), e.Data[:rejectSize], err)
			}
			d := p.Rejected(e.At, Rejection{Request: &requests[e.call], Status: cmConsumer, Data: e.Data, Waiting: true})
			if !d.Redial || d.At.After(e.At) || d.Why != TooDeep {
				t.Errorf("after reject %d: %+v", e.call, d)
			}
		case recording.CMReply:
			accepted = append(accepted, e.call)
			if _, _, err := l.Judge(1023, wireOf(t, *m), &heard); err != nil {
				t.Errorf("call %d is rejected: %v", e.call, err)
			}
			if _, err := ack.Decode(e.Data, Check); err != nil {
				t.Fatal(err)
			}
			l.NIs[0].Agree(&heard, depth[called], &ours)
			if diff := cmp.Diff(wireOf(t, ack), wireOf(t, ours)); diff != "" {
				t.Errorf("answer to call %d (-want +got):\n%s", e.call, diff)
			}
			if s, err := p.Connected(m, &ack); err != nil || s.Depth != min(depth[caller], depth[called]) {
				t.Errorf("call %d: depth %d, %v", e.call, s.Depth, err)
			}
		default:
			t.Errorf("call %d is answered by %v", e.call, e.Kind)
		}
	}
	if diff := cmp.Diff([]int{2, 3}, rejected) + cmp.Diff([]int{0, 1, 4, 5}, accepted); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
