package node_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/metrics"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// dropping is a node, forwarding or not, with a hand on tcp and one on tcp1 where
// messages are dropped, and its log.
type dropping struct {
	*testing.T
	handed
	log *lineLog
}

func newDropping(t *testing.T, routing bool, edit func(*node.Parameters)) *dropping {
	t.Helper()
	p := static()
	if edit != nil {
		edit(&p)
	}
	d := &dropping{T: t, handed: handed{near: &hand{}, far: &hand{}}, log: &lineLog{}}
	d.node = newNode(t, node.Config{Parameters: &p, Routing: routing,
		Logger: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for h, nid := range map[*hand]string{d.near: gatewayNear, d.far: gatewayFar} {
		addHand(t, d.node, h, nid, lnd.Tunables{PeerCredits: 1, Credits: 8})
	}
	return d
}

// arrive delivers a message from asker for the near NI, unless the header differs.
func (d *dropping) arrive(h lnet.Header, payload []byte) *arrival {
	a := &arrival{hand: d.near, payload: payload, rx: lnd.Rx{Header: h, From: process(d, asker)}}
	a.rx.Driver = a
	r := &a.rx.Header
	if r.Dest.IsZero() {
		r.Dest = d.near.nid
	}
	if r.Src.IsZero() {
		r.Src = a.rx.From.NID
	}
	r.PayloadLength = uint32(len(payload))
	d.near.arrivals = append(d.near.arrivals, a)
	_ = d.near.upper.Arrived(&a.rx) // some are errors
	return a
}

func (d *dropping) put(portal uint32, size int) *arrival {
	return d.arrive(lnet.Header{Type: lnet.MsgPut, Portal: portal, Handle: lnet.NoHandle}, make([]byte, size))
}

func (d *dropping) attach(size int, h portals.Handler) {
	attach(d, d.node, portals.Entry{Portal: 4}, portals.MD{
		Bytes: make([]byte, size), Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet, Handler: h})
}

// push delivers a push from a NID.
func (d *dropping) push(from string, content []byte) {
	d.arrive(lnet.Header{
		Type: lnet.MsgPut, MatchBits: lnet.PingMatchBits, Handle: lnet.NoHandle, Src: parseNID(d, from),
	}, content)
	synctest.Wait()
}

// bound returns an MD whose PUT with an ACK was sent.
func (d *dropping) bound(threshold int) lnet.Handle {
	h := bind(d, d.node, portals.MD{Threshold: threshold})
	put(d, d.node, h, process(d, asker), node.PutOptions{Portal: 4, Ack: true})
	d.near.finishAll(nil)
	return h
}

// dropCases has one case for each way in which a message is dropped.
var dropCases = []struct {
	name    string
	reason  node.DropReason
	routing bool
	edit    func(*node.Parameters)
	happens func(d *dropping)
}{
	{name: "no entry", reason: node.DropNoMatch, happens: func(d *dropping) { d.put(4, 3) }},
	{name: "to LNet's portal, but no push", reason: node.DropNoMatch, happens: func(d *dropping) { d.put(lnet.ReservedPortal, 3) }},
	{name: "not lazy any more", reason: node.DropNoMatch, happens: func(d *dropping) {
		_ = d.node.SetLazy(4) // the portal is valid
		d.put(4, 3)
		_ = d.node.ClearLazy(4)
	}},
	{name: "no portal", reason: node.DropNoPortal, happens: func(d *dropping) { d.put(lnet.Portals, 3) }},
	{name: "longer than the MD", reason: node.DropTooLong, happens: func(d *dropping) {
		d.attach(2, nil)
		d.put(4, 3)
	}},
	{name: "longer than the MD, which came later", reason: node.DropTooLong, happens: func(d *dropping) {
		_ = d.node.SetLazy(4) // the portal is valid
		d.put(4, 3)
		d.attach(2, nil)
	}},
	{name: "GET of more than LNet carries", reason: node.DropTooLong, happens: func(d *dropping) {
		d.attach(2, nil)
		d.arrive(lnet.Header{Type: lnet.MsgGet, Portal: 4, Length: lnet.MTU + 1}, nil)
	}},
	{name: "ACK of nothing", reason: node.DropNoMD, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgAck, Handle: lnet.Handle{Interface: 1, Object: 1}}, nil)
	}},
	{name: "REPLY to an MD that is used up", reason: node.DropUsedUp, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgReply, Handle: d.bound(1)}, nil)
	}},
	{name: "REPLY to a PUT", reason: node.DropUnsolicited, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgReply, Handle: d.bound(3)}, nil)
	}},
	{name: "handler that does nothing any more", reason: node.DropHandlerBacklog, happens: func(d *dropping) {
		busy, stop := make(chan struct{}), make(chan struct{})
		d.attach(1, portals.HandlerFunc(func(*portals.Event) {
			select {
			case <-busy:
			default:
				close(busy)
				<-stop
			}
		}))
		ended := make(chan struct{})
		go func() {
			d.put(4, 0)
			close(ended)
		}()
		<-busy
		for range answersKept + 1 {
			d.put(4, 0)
		}
		close(stop)
		<-ended
	}},
	{name: "lazy portal that nobody attends to", reason: node.DropPortalFull, happens: func(d *dropping) {
		_ = d.node.SetLazy(4) // the portal is valid
		for range answersKept + 1 {
			d.put(4, 0)
		}
	}},
	{name: "answers that nobody reads", reason: node.DropAnswersFull, happens: func(d *dropping) {
		d.attach(0, nil)
		for range answersKept + 2 { // one has the credit
			d.arrive(lnet.Header{Type: lnet.MsgGet, Portal: 4}, nil)
		}
	}},
	{name: "for another node", reason: node.DropNotRouter, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil)
	}},
	{name: "waits when the router stops", reason: node.DropNotRouter, routing: true, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil)
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil) // has no credit
		d.node.Admin().DisableRouting()
		time.Sleep(time.Minute)
	}},
	{name: "for a net that nobody knows", reason: node.DropNoRoute, routing: true, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, "10.9.9.9@tcp9"), Portal: 4}, nil)
	}},
	{name: "for who was not reached a moment ago", reason: node.DropAbsent, routing: true, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil)
		d.far.finishAll(fault(lnd.StatusRemoteTimeout, parseNID(d, behind), errNoDevice))
		synctest.Wait()
		d.node.Admin().ResetCounters()
		d.log.reset()
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil)
	}},
	{
		name: "from one stranger too many", reason: node.DropPeerBound, routing: true,
		edit: func(p *node.Parameters) { p.PeerNIsMax = node.PeerNIsMin },
		happens: func(d *dropping) {
			for k := 0; k < 2*node.PeerNIsMin && d.node.Admin().Drops() == (node.DropCounts{}); k++ {
				// Each waits in the router, so that its sender cannot be evicted.
				from := lnet.ProcessID{NID: madeUp(d.near.nid.Net(), 1000+k), PID: lnet.PIDLustre}
				a := &arrival{hand: d.near, rx: lnd.Rx{From: from, Header: lnet.Header{
					Type: lnet.MsgPut, Src: from.NID, Dest: parseNID(d, behind), Portal: 4}}}
				a.rx.Driver = a
				if err := d.near.upper.Arrived(&a.rx); err != nil {
					d.Fatal(err)
				}
			}
		},
	},
	{name: "next hop is down", reason: node.DropHopDown, routing: true, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil)
		d.far.finishAll(nil)
		d.far.upper.PeerDown(lnd.PeerDown{Peer: parseNID(d, behind)})
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, behind), Portal: 4}, nil)
	}},
	{
		name: "no route back", reason: node.DropAsymmetric, edit: func(p *node.Parameters) { p.DropAsymRoute = true },
		happens: func(d *dropping) {
			d.arrive(lnet.Header{Type: lnet.MsgPut, Src: parseNID(d, "10.9.9.9@tcp9"), Portal: 4}, nil)
		},
	},
	{name: "for another NI", reason: node.DropOtherNI, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: d.far.nid, Portal: 4}, nil)
	}},
	{name: "should have gone directly", reason: node.DropMisdirected, routing: true, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Dest: parseNID(d, "10.77.0.99@tcp"), Portal: 4}, nil)
	}},
	{name: "says that it is from this very process", reason: node.DropMalformed, happens: func(d *dropping) {
		d.arrive(lnet.Header{Type: lnet.MsgPut, Src: lnet.LoopbackNID, Portal: 4}, nil)
	}},
	{name: "push of nonsense", reason: node.DropMalformed, happens: func(d *dropping) { d.push(asker, []byte("nonsense")) }},
	{name: "push by nobody", reason: node.DropUnknownPeer, happens: func(d *dropping) {
		d.push("10.9.9.9@tcp9", infoWith(1, 0, lnet.LoopbackNID, parseNID(d, "10.9.9.9@tcp9")))
	}},
	{name: "drop rule", reason: node.DropFaultRule, happens: func(d *dropping) {
		addFault(d, d.node, faults.Rule{Kind: faults.Drop, Rate: 1})
		d.put(4, 3)
	}},
	{name: "waited for a credit", reason: node.DropOverdue, happens: func(d *dropping) {
		h := bind(d, d.node, portals.MD{Threshold: portals.Unlimited})
		for range 2 {
			put(d, d.node, h, process(d, asker), node.PutOptions{Portal: 4})
		}
		time.Sleep(time.Hour)
		d.near.finishAll(nil)
	}},
	{name: "answer that does not leave", reason: node.DropNotSent, happens: func(d *dropping) {
		d.attach(1, nil)
		d.arrive(lnet.Header{Type: lnet.MsgGet, Portal: 4}, nil)
		d.near.finishAll(fault(lnd.StatusRemoteTimeout, parseNID(d, asker), errNoDevice))
	}},
	{name: "connection dies while it waits", reason: node.DropConnection, happens: func(d *dropping) {
		_ = d.node.SetLazy(4) // the portal is valid
		d.put(4, 3).withdraw()
	}},
	{name: "connection dies under a message for another", reason: node.DropConnection, routing: true, happens: func(d *dropping) {
		a := &arrival{hand: d.near, gone: true, rx: lnd.Rx{From: process(d, asker), Header: lnet.Header{
			Type: lnet.MsgPut, Src: parseNID(d, asker), Dest: parseNID(d, behind), Portal: 4}}}
		a.rx.Driver = a
		if err := d.near.upper.Arrived(&a.rx); err != nil {
			d.Fatal(err)
		}
	}},
	{name: "waits when the node ends", reason: node.DropClosing, happens: func(d *dropping) {
		_ = d.node.SetLazy(4) // the portal is valid
		d.put(4, 3)
		if err := d.node.Close(context.Background()); err != nil {
			d.Fatal(err)
		}
	}},
	{name: "waits when the NI goes", reason: node.DropClosing, happens: func(d *dropping) {
		_ = d.node.SetLazy(4) // the portal is valid
		d.put(4, 3)
		if err := d.node.RemoveNI(context.Background(), d.near.nid); err != nil {
			d.Fatal(err)
		}
	}},
}

// Every dropped message is counted under one reason, is logged at debug level with its
// addresses, and can be read in the metrics.
//
// lnet-wire 4.6 (4)-(5), 4.7 (4)-(6), 4.7 (8)-(10), 4.8 (4)
func TestNothingIsDroppedInSilence(t *testing.T) {
	shown := map[node.DropReason]bool{}
	for _, c := range dropCases {
		shown[c.reason] = true
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDropping(t, c.routing, c.edit)
				d.log.reset()
				c.happens(d)
				synctest.Wait()
				for r, n := range d.node.Admin().Drops() {
					if want := node.DropReason(r) == c.reason; n > 1 || (n == 1) != want {
						t.Errorf("%d counted as %s, want one as %s", n, node.DropReason(r), c.reason)
					}
				}
				told := 0
				for line := range strings.Lines(d.log.String()) {
					if strings.Contains(line, "reason="+c.reason.String()+" ") && strings.Contains(line, " source=") && strings.Contains(line, " dest=") {
						told++
						request := strings.Contains(line, "type=PUT") || strings.Contains(line, "type=GET")
						if request != strings.Contains(line, " portal=") {
							t.Error("no portal:", line)
						}
					}
				}
				if told != 1 {
					t.Errorf("told %d times:\n%s", told, d.log)
				}
				w := httptest.NewRecorder()
				source := struct {
					*node.Node
					*node.Admin
				}{d.node, d.node.Admin()}
				metrics.Handler(source, metrics.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				if line := `lnet_dropped_messages_total{reason="` + c.reason.String() + `"} 1` + "\n"; !strings.Contains(w.Body.String(), line) {
					t.Errorf("the metrics have no %s", line)
				}
				d.node.Admin().ResetCounters()
				if got := d.node.Admin().Drops(); got != (node.DropCounts{}) {
					t.Errorf("after a reset %v", got)
				}
				d.near.finishAll(nil)
				d.far.finishAll(nil)
			})
		})
	}
	for r := range node.DropReason(node.DropReasons) {
		if !shown[r] {
			t.Errorf("no case drops for %s", r)
		}
	}
}
