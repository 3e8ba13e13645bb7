package soak

import (
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Arrivals are compared with the plan of the peer's sender.
func TestReceiverChecksArrivals(t *testing.T) {
	c := DefaultConfig()
	pattern := newPattern()
	seq := uint64(0)
	for p := planOf(1, seq); p.kind != ackedPut || p.size < 100; p = planOf(1, seq) {
		seq++
	}
	p := planOf(1, seq)
	from := lnet.ProcessID{NID: c.nid(child, 0), PID: lnet.PIDLustre}
	for _, x := range []struct {
		name, want string
		spoil      func(e *portals.Event, payload []byte)
	}{
		{"right", "", func(*portals.Event, []byte) {}},
		{"one byte", "wrong content", func(_ *portals.Event, b []byte) { b[p.size-1] ^= 1 }},
		{"cut short", "want a PUT+ACK of", func(e *portals.Event, _ []byte) { e.Length-- }},
		{"another's header data", "hdr_data", func(e *portals.Event, _ []byte) { e.HdrData++ }},
		{"another's source", "want " + from.NID.String(), func(e *portals.Event, _ []byte) { e.Initiator.NID = c.nid(parent, 0) }},
	} {
		var f findings
		r := newReceiver(nil, c.nids(child), 1, pattern, &f)
		payload := append([]byte(nil), p.payload(pattern)...)
		e := &portals.Event{Type: portals.EventPut, MatchBits: putBits | seq, HdrData: seq, Initiator: from, Length: p.size}
		x.spoil(e, payload)
		r.handlePut(e, payload[:e.Length])
		n, texts := f.list()
		if got := strings.Join(texts, "; "); n > 1 || n == 0 != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: found %q, want %q", x.name, got, x.want)
		}
	}
}
