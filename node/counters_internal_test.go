package node

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// Given a router whose counters are read while a message passes, at any point between the
// increments, then no counter decreases. Prometheus would take a decrease for a restart
// and add the whole value to a rate.
func TestCountersOfARouterDoNotGoBack(t *testing.T) {
	n, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	s := &n.lo.stats
	own := func() {
		s.sent[lnet.MsgPut].Add(5)
		s.sentBytes[lnet.MsgPut].Add(500)
		s.received[lnet.MsgPut].Add(7)
		s.receivedBytes[lnet.MsgPut].Add(700)
	}
	own()
	last := n.Admin().Counters()
	look := func(when string) {
		t.Helper()
		c := n.Admin().Counters()
		if c.Sent < last.Sent || c.SentBytes < last.SentBytes || c.Received < last.Received || c.ReceivedBytes < last.ReceivedBytes {
			t.Errorf("%s: %+v after %+v", when, c, last)
		}
		last = c
	}
	n.stats.passed.add(100)
	look("passed")
	s.received[lnet.MsgPut].Add(1)
	look("received")
	s.receivedBytes[lnet.MsgPut].Add(100)
	look("received with its bytes")
	n.stats.routed.add(100)
	look("routed")
	s.sent[lnet.MsgPut].Add(1)
	look("sent")
	s.sentBytes[lnet.MsgPut].Add(100)
	own()
	if c := n.Admin().Counters(); c.Sent != 10 || c.SentBytes != 1000 || c.Received != 14 || c.ReceivedBytes != 1400 || c.Routed != 1 {
		t.Errorf("at the end: %+v", c)
	}
	n.Admin().ResetCounters()
	if c := n.Admin().Counters(); c.Sent != 0 || c.Received != 0 {
		t.Errorf("zeroed: %+v", c)
	}
}

// A latency below the resolution of the clock counts as 1 ns, for the NI and the peer NI.
// A minimum of 0 would mean that there are no samples, and the next latency would replace
// it.
func TestLatencyOfNoTimeIsTheShortest(t *testing.T) {
	n, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	m := message{ni: n.lo, peer: new(peerNI)}
	for _, ns := range []int64{0, 1000} {
		m.sample(latencyGetRTT, ns)
	}
	want := Latency{Samples: 2, Min: 1, Max: 1000, Avg: 500, Sum: 1001}
	h, l := &m.ni.stats.latency[latencyGetRTT], &m.peer.counters().latency[latencyGetRTT]
	if got := h.summary(h.samples()); got != want {
		t.Errorf("NI: %+v, want %+v", got, want)
	}
	if got := l.summary(l.samples.Load()); got != want {
		t.Errorf("peer NI: %+v, want %+v", got, want)
	}
}
