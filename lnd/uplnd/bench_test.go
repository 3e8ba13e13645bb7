package uplnd_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// benchNode is a node that answers each message, or takes all of them.
type benchNode struct {
	lnd.Upper
	iface    lnd.Interface
	memory   []byte
	answers  bool
	tx       lnd.Tx // the answer
	received chan struct{}
	sent     chan *lnd.Tx
}

func (n *benchNode) Arrived(m *lnd.Rx) error {
	n.iface.Receive(m, lnd.Placement{Memory: memory.Of(n.memory[:m.Header.PayloadLength]), Done: n})
	return nil
}

func (n *benchNode) Received(m *lnd.Rx, err error) {
	switch {
	case err != nil:
		panic(err)
	case n.answers:
		n.send(&n.tx, m.From.NID, int(m.Header.PayloadLength))
	default:
		n.received <- struct{}{}
	}
}

func (n *benchNode) Sent(m *lnd.Tx, err error) {
	if err != nil {
		panic(err)
	}
	if !n.answers {
		n.sent <- m
	}
}

func (n *benchNode) send(m *lnd.Tx, to lnet.NID, size int) {
	*m = lnd.Tx{To: lnet.ProcessID{NID: to, PID: lnet.PIDLustre}, Payload: memory.Of(n.memory[:size]), Done: n}
	m.Header = lnet.Header{
		Type: lnet.MsgPut, Src: n.iface.NID(), SrcPID: lnet.PIDLustre, Dest: to, DestPID: lnet.PIDLustre,
		PayloadLength: uint32(size), Handle: lnet.NoHandle,
	}
	n.iface.Send(m)
}

// benchPair opens two nodes: over socklnd in this process, or over proxies in two others with the same driver.
func benchPair(b *testing.B, proxies bool) (from, to *benchNode) {
	b.Helper()
	var nodes [2]*benchNode
	for k := range nodes {
		n := &benchNode{
			Upper: newUpper(), memory: make([]byte, lnet.MTU), answers: k == 1,
			received: make(chan struct{}, 1024), sent: make(chan *lnd.Tx, 64),
		}
		nodes[k] = n
		if proxies {
			s := newSite(b, uplnd.Config{})
			i, err := s.open(context.Background(), lnd.Config{Net: proxied, NID: loopbackNID(100 + k), Upper: n}, startProcess)
			if err != nil {
				b.Fatal(err)
			}
			n.iface = i
			b.Cleanup(func() {
				if err := i.Close(context.Background()); err != nil {
					b.Error(err)
				}
				s.close(b)
			})
			continue
		}
		d, err := socklnd.New(socklnd.UnprivilegedConfig(port + 1))
		if err != nil {
			b.Fatal(err)
		}
		i, err := d.Open(context.Background(), lnd.Config{Net: proxied, NID: loopbackNID(110 + k), Upper: n})
		if err != nil {
			b.Fatal(err)
		}
		n.iface = i
		b.Cleanup(func() {
			if err := i.Close(context.Background()); err != nil {
				b.Error(err)
			}
		})
	}
	return nodes[0], nodes[1]
}

// BenchmarkRoundTrip sends a small message and waits for the answer, in turns over proxies and over socklnd.
func BenchmarkRoundTrip(b *testing.B) {
	compare(b, func(from, to *benchNode) {
		var m lnd.Tx
		for range 200 {
			from.send(&m, to.iface.NID(), 96)
			<-from.received
			<-from.sent
		}
	}, true)
}

// BenchmarkThroughput sends messages of 1 MiB, eight at a time, in turns over proxies and over socklnd.
func BenchmarkThroughput(b *testing.B) {
	compare(b, func(from, to *benchNode) {
		const messages = 200
		for range 8 {
			from.sent <- new(lnd.Tx)
		}
		for range messages {
			from.send(<-from.sent, to.iface.NID(), lnet.MTU)
		}
		for range messages {
			<-to.received
		}
		for range 8 {
			<-from.sent
		}
	}, false)
}

// compare reports the medians of turns of both kinds, and of their ratio.
func compare(b *testing.B, turn func(from, to *benchNode), answers bool) {
	var pairs [2][2]*benchNode
	for k, proxies := range []bool{false, true} {
		from, to := benchPair(b, proxies)
		to.answers = answers
		turn(from, to) // connects
		pairs[k] = [2]*benchNode{from, to}
	}
	var times [2][]float64
	var ratios []float64
	for b.Loop() {
		for k, p := range pairs {
			start := time.Now()
			turn(p[0], p[1])
			times[k] = append(times[k], float64(time.Since(start))/200)
		}
		n := len(times[0]) - 1
		ratios = append(ratios, times[1][n]/times[0][n])
	}
	for name, v := range map[string][]float64{"ns/socklnd": times[0], "ns/proxied": times[1], "ratio": ratios} {
		slices.Sort(v)
		b.ReportMetric(v[len(v)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}
