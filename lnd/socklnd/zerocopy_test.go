package socklnd

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// acknowledged checks that a NOOP arrives which acknowledges cookie.
func (w *wire) acknowledged(cookie uint64) {
	w.t.Helper()
	want := protocol.Frame{Type: protocol.FrameNoop, Ack: cookie}
	if f := w.frame(); f != want {
		w.t.Errorf("frame %+v, want %+v", f, want)
	}
}

// TestZeroCopyRequestsAreAcknowledgedOnce checks on which connection a NOOP comes back, and that
// there is only one.
//
// socklnd 10.1 (1), 10.2 (1), 10.4 (1)
func TestZeroCopyRequestsAreAcknowledgedOnce(t *testing.T) {
	all := func(*Config) {}
	blocking := func(c *Config) { c.NonblockingZCAck = false }
	const control, bulkIn, bulkOut = 0, 1, 2
	for _, test := range []struct {
		name    string
		version protocol.Version
		edit    func(*Config)
		routed  bool
		from    int
		back    int
	}{
		{"V3 on bulk", protocol.V3, all, false, bulkOut, bulkOut},
		{"V3 on CONTROL", protocol.V3, all, false, control, bulkOut},
		{"V3 on CONTROL, blocking", protocol.V3, blocking, false, control, control},
		{"V3 on bulk, blocking", protocol.V3, blocking, false, bulkOut, control},
		{"V3 on bulk, blocking but routed", protocol.V3, blocking, true, bulkOut, bulkOut},
		{"V4 on bulk", protocol.V4, all, false, bulkOut, bulkOut},
		{"V2 on bulk", protocol.V2, all, false, bulkOut, control},
		{"V2 on CONTROL", protocol.V2, all, false, control, control},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := start(t, test.edit)
			p := newPuppet(n)
			p.version = test.version
			var set [3]*wire
			set[control], set[bulkIn], set[bulkOut] = p.callUs()
			for cookie := uint64(2); cookie < 8; cookie++ {
				src := p.nid()
				if test.routed {
					src = lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 3), p.addr)
				}
				w := set[test.from]
				w.send(w.message(pattern(20000*int(cookie%2)), func(f *protocol.Frame, h *lnet.Header) {
					f.Request, h.Src = cookie, src
				}))
				n.arrival()
				set[test.back].acknowledged(cookie)
			}
			if got := n.counter("zc_acks_total"); got != 6 {
				t.Errorf("%d acknowledgements counted", got)
			}
			n.Disconnect(p.nid())
			for _, w := range set {
				w.ends() // and nothing else arrives
			}
		})
	}
}

func TestAcknowledgementsTakeControlWhereThereIsNothingElse(t *testing.T) {
	for v := protocol.V2; v <= protocol.V4; v++ {
		n := start(t, nil)
		p := newPuppet(n)
		p.version = v
		w := p.connect(protocol.Control)
		w.request(20000, 5)
		n.arrival()
		w.acknowledged(5)
	}
}

// TestAcknowledgementsDoNotDependOnWhoWantsTheMessage checks that dropped and truncated messages
// are acknowledged too.
//
// socklnd 10.2 (1), 13 (4)
func TestAcknowledgementsDoNotDependOnWhoWantsTheMessage(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	_, _, w := p.callUs()
	n.onArrival(func(a *arrival) error {
		switch a.header.PayloadLength % 3 {
		case 0:
			a.drop()
		case 1:
			a.place(memory.Of(make([]byte, a.header.PayloadLength/2)))
		default:
			a.place(memory.Of(make([]byte, a.header.PayloadLength)))
		}
		return nil
	})
	for k, size := range []int{0, 1, 2, 30000, 30001, 30002} {
		w.request(size, uint64(k+2))
		w.acknowledged(uint64(k + 2))
	}
}

// socklnd 10.2 (2)
func TestAnAcknowledgementComesBeforeTheRestIsSkipped(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	_, _, w := p.callUs()
	n.onArrival(func(a *arrival) error { a.place(memory.Of(make([]byte, 100))); return nil })
	m := w.message(pattern(1<<20), func(f *protocol.Frame, _ *lnet.Header) { f.Request = 9 })
	w.send(m[:300000])
	w.acknowledged(9)
	w.send(m[300000:])
	n.arrival()
}

// socklnd 10.4 (1), 10.4 (3)
func TestManyAcknowledgementsAreMerged(t *testing.T) {
	const count = 200
	for v := protocol.V2; v <= protocol.V4; v++ {
		t.Run(v.String(), func(t *testing.T) {
			n := start(t, nil)
			p := newPuppet(n)
			p.version = v
			control, _, w := p.callUs()
			var stream []byte
			for k := range uint64(count) {
				stream = append(stream, w.message(nil, func(f *protocol.Frame, _ *lnet.Header) {
					f.Request = protocol.FirstCookie + k
				})...)
			}
			w.send(stream)
			back := w
			if v == protocol.V2 {
				back = control
			}
			outstanding := map[uint64]bool{}
			for k := range uint64(count) {
				outstanding[protocol.FirstCookie+k] = true
			}
			noops := 0
			for len(outstanding) > 0 {
				cookies, err := protocol.Acknowledged(back.frame(), v)
				if err != nil {
					t.Fatal(err)
				}
				noops++
				for k := range cookies.All() {
					if !outstanding[k] {
						t.Fatalf("%d is acknowledged and not outstanding", k)
					}
					delete(outstanding, k)
				}
			}
			if v == protocol.V2 && noops != count || v > protocol.V2 && noops > count/2 {
				t.Errorf("%d NOOPs for %d requests", noops, count)
			}
		})
	}
}

// TestAnAnswerTakesTheAcknowledgementAlong checks that a message carries a cookie where the version
// allows it (socklnd 10.4).
//
// socklnd 10.3 (1), 10.4 (2)
func TestAnAnswerTakesTheAcknowledgementAlong(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	n.awaitSettled(p.id())
	n.onArrival(func(a *arrival) error {
		// The answer and the acknowledgement are sent together, at the end of the batch of
		// arrivals.
		n.put(p.id(), 10)
		a.place(memory.Of(make([]byte, a.header.PayloadLength)))
		return nil
	})
	w.request(10, 7)
	if f, _, _ := w.receive(); f.Ack != 7 {
		t.Errorf("frame %+v, want the cookie 7 in it", f)
	}
}

// socklnd 10.3 (4)
func TestCookiesThatWereNeverOutstanding(t *testing.T) {
	for _, test := range []struct {
		version protocol.Version
		c0, c1  uint64
		good    bool
	}{
		{protocol.V3, 0, 0, true},
		{protocol.V3, 0, 1, true},
		{protocol.V4, 0, 1, true},
		{protocol.V3, 0, 2, false},
		{protocol.V3, 3, 2, false},
		{protocol.V3, 2, 1<<64 - 1, false},
		{protocol.V3, 5, 1, false},
		{protocol.V3, 1, 1, false},
		{protocol.V4, 0, 2, false},
		{protocol.V2, 0, 0, true},
		{protocol.V2, 0, 2, false},
		{protocol.V2, 0, 1, false},
	} {
		t.Run(fmt.Sprintf("%s %d %d", test.version, test.c0, test.c1), func(t *testing.T) {
			n := start(t, nil)
			p := newPuppet(n)
			p.version = test.version
			control, bulkIn, w := p.callUs()
			w.noop(test.c0, test.c1)
			if test.good {
				w.put(10)
				n.arrival()
				return
			}
			for _, w := range []*wire{control, bulkIn, w} {
				w.ends()
			}
			if got := n.counter("protocol_errors_total"); got != 1 {
				t.Errorf("%d protocol errors", got)
			}
		})
	}
	t.Run("in a message", func(t *testing.T) {
		n := start(t, nil)
		n.onArrival(func(*arrival) error { t.Error("the message arrived"); return nil })
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		w.send(w.message(nil, func(f *protocol.Frame, _ *lnet.Header) { f.Ack = 2 }))
		w.ends()
	})
}
