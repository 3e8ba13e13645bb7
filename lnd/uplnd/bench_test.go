package uplnd_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
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
	switch {
	case n.answers: // the interface may be closed before the last answer is reported as sent
	case err != nil:
		panic(err)
	default:
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

// benchWorld opens the nodes that the rows of a comparison use.
type benchWorld struct {
	b     *testing.B
	nodes int
}

// node returns a node that has no interface yet, and the NID of the interface to open.
func (w *benchWorld) node() (*benchNode, lnet.NID) {
	w.nodes++
	n := &benchNode{
		Upper: newUpper(), memory: make([]byte, lnet.MTU), received: make(chan struct{}, 1024), sent: make(chan *lnd.Tx, 64),
	}
	return n, loopbackNID(100 + w.nodes)
}

// native opens a node over socklnd in this process.
func (w *benchWorld) native() *benchNode {
	w.b.Helper()
	n, nid := w.node()
	if err := n.openNative(nid); err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() { w.close(n) })
	return n
}

func (w *benchWorld) close(n *benchNode) {
	if err := n.iface.Close(context.Background()); err != nil {
		w.b.Error(err)
	}
}

// proxied opens a node whose proxy is another process, with socklnd.
func (w *benchWorld) proxied() *benchNode {
	w.b.Helper()
	n, nid := w.node()
	s := newSite(w.b, uplnd.Config{})
	i, err := s.open(context.Background(), lnd.Config{Net: proxied, NID: nid, Upper: n}, startProcess)
	if err != nil {
		w.b.Fatal(err)
	}
	n.iface = i
	w.b.Cleanup(func() {
		w.close(n)
		s.close(w.b)
	})
	return n
}

// row is something that a comparison measures. A turn has benchMessages messages or round trips.
type row struct {
	name string
	turn func()
}

const benchMessages = 200

// BenchmarkRoundTrip sends a message of 96 bytes and waits for the answer. The rows are two plain programs with
// eventfds and with TCP; socklnd within one process, and between two; one proxied end, and two. The plain programs
// show what two wake-ups of another process cost; one proxied end needs four, and two need six.
func BenchmarkRoundTrip(b *testing.B) {
	trips := func(from *benchNode, to lnet.NID) func() {
		return func() {
			var m lnd.Tx
			for range benchMessages {
				from.send(&m, to, 96)
				<-from.received
				<-from.sent
			}
		}
	}
	answering := func(n *benchNode) lnet.NID {
		n.answers = true
		return n.iface.NID()
	}
	w := &benchWorld{b: b}
	const bytes = 2 * 96 // of header and payload
	compare(b, []row{
		{"eventfd", plainEventfd(b)},
		{"tcp", plainTCP(b, bytes, bytes, benchMessages)},
		{"socklnd", trips(w.native(), answering(w.native()))},
		{"apart", trips(w.native(), startEcho(b, loopbackNID(100)))},
		{"one", trips(w.proxied(), answering(w.native()))},
		{"both", trips(w.proxied(), answering(w.proxied()))},
	})
}

// BenchmarkThroughput sends messages of 1 MiB, eight at a time.
func BenchmarkThroughput(b *testing.B) {
	w := &benchWorld{b: b}
	compare(b, append([]row{{"tcp", plainTCP(b, benchMessages*lnet.MTU, 1, 1)}}, w.streams(8, lnet.MTU)...))
}

// BenchmarkRate sends messages of 96 bytes, 64 at a time.
func BenchmarkRate(b *testing.B) {
	w := &benchWorld{b: b}
	compare(b, w.streams(64, 96))
}

// streams returns rows in which a node sends messages of a size, up to atOnce at a time.
func (w *benchWorld) streams(atOnce, size int) []row {
	w.b.Helper()
	stream := func(from, to *benchNode) func() {
		return func() {
			for range atOnce {
				from.sent <- new(lnd.Tx)
			}
			for range benchMessages {
				from.send(<-from.sent, to.iface.NID(), size)
			}
			for range benchMessages {
				<-to.received
			}
			for range atOnce {
				<-from.sent
			}
		}
	}
	return []row{
		{"socklnd", stream(w.native(), w.native())}, {"one", stream(w.proxied(), w.native())}, {"both", stream(w.proxied(), w.proxied())},
	}
}

// compare measures the rows in turns, and reports the medians of their times and of the ratios to socklnd.
func compare(b *testing.B, rows []row) {
	b.Helper()
	times, ratios := make(map[string][]float64), make(map[string][]float64)
	for _, r := range rows {
		r.turn() // connects
	}
	for b.Loop() {
		for _, r := range rows {
			start := time.Now()
			r.turn()
			times[r.name] = append(times[r.name], float64(time.Since(start))/benchMessages)
		}
		base := times["socklnd"][len(times["socklnd"])-1]
		for _, r := range rows {
			ratios[r.name] = append(ratios[r.name], times[r.name][len(times[r.name])-1]/base)
		}
	}
	median := func(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
	for _, r := range rows {
		b.ReportMetric(median(times[r.name]), "ns/"+r.name)
		if r.name != "socklnd" {
			b.ReportMetric(median(ratios[r.name]), r.name+"/socklnd")
		}
	}
	b.ReportMetric(0, "ns/op")
}
