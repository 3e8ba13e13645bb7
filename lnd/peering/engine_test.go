package peering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// scripted is a driver in memory whose connections a test makes and ends. A message that is sent on a
// connection stays in sent.
type scripted struct {
	Engine[*scriptedPeer]
	reports []string
	onUp    func(report string) // called for each report, after it has been noted
	own     int                 // the driver's own events
	doubts  int                 // calls of Doubted
	log     bytes.Buffer

	lndTimeout time.Duration // the node's
}

type scriptedPeer struct {
	Peer
	d         *scripted
	connected bool // guarded by the lock, like calling
	calling   bool
	sent      []*lnd.Tx
	probes    int
	answered  bool
	renewed   int
	told      int
	closed    []error
}

func (p *scriptedPeer) Send(m *lnd.Tx) bool {
	p.Lock()
	defer p.Unlock()
	switch {
	case p.Gone:
		return false
	case p.connected:
		p.sent = append(p.sent, m)
	default:
		p.calling = true
		p.Waiting.Add(m, time.Now())
	}
	return true
}

func (p *scriptedPeer) Connected() bool { return p.connected }
func (p *scriptedPeer) Busy() bool      { return p.connected || p.calling || p.Accepting > 0 }

func (p *scriptedPeer) Detach(cause error) (closeAll func()) {
	was := p.connected
	p.connected, p.calling = false, false
	return func() {
		if was {
			p.closed = append(p.closed, cause)
			p.d.PutLost(p, cause)
		}
	}
}

func (p *scriptedPeer) Recall(match func(*lnd.Tx) bool) (back []*lnd.Tx) {
	p.sent = slices.DeleteFunc(p.sent, func(m *lnd.Tx) bool {
		yes := match(m)
		if yes {
			back = append(back, m)
		}
		return yes
	})
	return back
}

func (p *scriptedPeer) Renew(time.Time) { p.renewed++ }
func (p *scriptedPeer) Restarted()      { p.told++ }

func (p *scriptedPeer) Probe(time.Time) bool {
	p.probes++
	return p.connected
}

func (p *scriptedPeer) Answered() bool { return p.answered }
func (p *scriptedPeer) CloseStale()    { p.d.end(p, ErrStale) }

// end ends the peer's connections because of cause, as a driver does.
func (d *scripted) end(p *scriptedPeer, cause error) {
	p.Lock()
	d.AssumeRestarted(p, errors.Is(cause, ErrStale))
	closeAll := p.Detach(cause)
	err := d.Error("send", p.ID.NID, lnd.StatusRemoteDropped, cause)
	p.Loss = err
	p.Unlock()
	closeAll()
	p.Lock()
	d.PutDown(p)
	d.Put(p.Waiting.Cancel(), err)
	p.Unlock()
	d.Out.Run()
	d.Forget(p)
}

// connect makes a connection of an incarnation.
func (d *scripted) connect(p *scriptedPeer, incarnation uint64) {
	p.Lock()
	d.Observe(p, incarnation, true)
	p.connected, p.calling, p.Loss = true, false, nil
	p.Backoff.Reset()
	p.Unlock()
	d.Out.Run()
}

// report notes an upcall.
func (d *scripted) report(format string, args ...any) {
	r := fmt.Sprintf(format, args...)
	d.reports = append(d.reports, r)
	if d.onUp != nil {
		d.onUp(r)
	}
}

// Sent implements lnd.Sender.
func (d *scripted) Sent(m *lnd.Tx, err error) { d.report("sent %s: %s", m.To, lnd.StatusOf(err)) }

// upper notes the upcalls of a scripted driver.
type upper struct {
	lnd.Upper
	d *scripted
}

func (u upper) PeerDown(v lnd.PeerDown)       { u.d.report("down %s: %s", v.Peer, lnd.StatusOf(v.Err)) }
func (u upper) ConnectionsLost(peer lnet.NID) { u.d.report("lost %s", peer) }
func (u upper) PeerRestarted(peer lnet.NID)   { u.d.report("restarted %s", peer) }
func (u upper) Vouched(lnet.NID) bool         { return false }
func (u upper) LNDTimeout() time.Duration     { return u.d.lndTimeout }
func (u upper) LinkChanged(s lnd.LinkState)   { u.d.report("link %s", s) }
func (u upper) PeerStalled(peer lnet.NID, since time.Time) {
	u.d.report("stalled %s: %v", peer, !since.IsZero())
}

const maxPause = time.Minute

func newScripted() *scripted {
	d := &scripted{}
	d.Init(Setup[*scriptedPeer]{
		Place: &Place{
			Self: nid(1000), Upper: upper{d: d}, Log: boundedlog.New(slog.New(slog.NewTextHandler(&d.log, nil))),
		},
		Driver: "scripted", PerSource: 2, MinPause: time.Second, MaxPause: maxPause,
		New:       func() *scriptedPeer { return &scriptedPeer{d: d} },
		Reachable: func(id lnet.ProcessID) bool { return id.NID != nid(666) },
		Doubted:   func() { d.doubts++ },
		Make:      func(*Event) { d.own++ },
	})
	return d
}

func nid(k int) lnet.NID { return process(k).NID }

func (d *scripted) send(id lnet.ProcessID) *lnd.Tx {
	m := &lnd.Tx{To: id, Done: d}
	d.Submit(m, id)
	return m
}

// reported checks the reports since the last check.
func (d *scripted) reported(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.reports); diff != "" {
		t.Errorf("%s: reports (-want +got):\n%s", when, diff)
	}
	d.reports = nil
}

// TestEngineCreatesPeersOnce: a message and a caller meet the same peer, and a peer that cannot be reached is
// not created.
func TestEngineCreatesPeersOnce(t *testing.T) {
	d := newScripted()
	d.send(process(1))
	p, err := d.Caller(process(1), netip.MustParseAddr("10.0.0.1"))
	if err != nil || p != d.Find(process(1)) || d.Len() != 1 || p.Accepting != 1 {
		t.Errorf("%v, %d peers, %+v", err, d.Len(), p)
	}
	d.send(process(666))
	d.reported(t, "unreachable", "sent "+process(666).String()+": "+lnd.StatusRemoteError.String())
	other := process(1)
	other.PID = 1 | lnet.PIDUserFlag
	q, err := d.Caller(other, netip.MustParseAddr("10.0.0.1"))
	if err != nil || q == p || len(d.Of(nid(1))) != 2 || len(d.Of(nid(2))) != 0 || len(d.Of(lnet.NID{})) != 2 {
		t.Errorf("%v: %v has %d peers", err, nid(1), len(d.Of(nid(1))))
	}
	var refused *lnd.RefusedError
	if _, err := d.Caller(other, netip.MustParseAddr("10.0.0.1")); !errors.As(err, &refused) || refused.Reason != lnd.RefusedMany {
		t.Errorf("the third connection from one address: %v", err)
	}
	d.CallerLeft(netip.MustParseAddr("10.0.0.1"))
	if _, err := d.Caller(other, netip.MustParseAddr("10.0.0.1")); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	if len(d.Of(nid(1))) != 2 {
		t.Error("a peer was created twice")
	}
	q.Accepting = 0
	d.Forget(q)
	if d.others != 0 || len(d.Of(nid(1))) != 1 {
		t.Errorf("%d other processes after the only one has left", d.others)
	}
}

// TestEngineForgetsPeersNotInUse: a peer leaves the table only when nothing of it is left, and what is known
// of it returns with it.
func TestEngineForgetsPeersNotInUse(t *testing.T) {
	for name, hold := range map[string]func(d *scripted, p *scriptedPeer) (release func()){
		"a connection": func(_ *scripted, p *scriptedPeer) func() {
			p.connected = true
			return func() { p.connected = false }
		},
		"a message": func(_ *scripted, p *scriptedPeer) func() {
			p.Waiting.Add(&lnd.Tx{}, time.Now())
			return func() { p.Waiting.Cancel() }
		},
		"a caller": func(_ *scripted, p *scriptedPeer) func() {
			p.Accepting++
			return func() { p.Accepting-- }
		},
		"messages that a goroutine has taken": func(_ *scripted, p *scriptedPeer) func() {
			p.Held++
			return func() { p.Held-- }
		},
		"an unreported restart": func(d *scripted, p *scriptedPeer) func() {
			d.Observe(p, 8, true)
			return d.Out.Run
		},
		"a stall": func(_ *scripted, p *scriptedPeer) func() {
			p.Stall.since = time.Now()
			return func() { p.Stall.since = time.Time{} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newScripted()
			p, _ := d.Peer(process(1))
			d.Observe(p, 7, true)
			p.Backoff.Fail(time.Now(), errClosed, 0)
			release := hold(d, p)
			d.Forget(p)
			if d.Find(process(1)) != p || p.Gone {
				t.Fatal("the peer has left the table")
			}
			release()
			d.Forget(p)
			if d.Find(process(1)) != nil || !p.Gone {
				t.Fatal("the peer is in the table")
			}
			again, _ := d.Peer(process(1))
			if again == p || p.Record.Incarnations.Any() || !again.Record.Home || !again.Record.Incarnations.Any() || again.Backoff.Ready(time.Now()) || again.Backoff.Max != maxPause {
				t.Errorf("%+v has returned as %+v", p, again)
			}
		})
	}
}

var errClosed = errors.New("closed")

// TestEngineReportsInOrder: PeerDown comes once, after ConnectionsLost and before the messages that waited
// fail, and not again before the next connection.
func TestEngineReportsInOrder(t *testing.T) {
	d := newScripted()
	d.send(process(1))
	p := d.Find(process(1))
	d.connect(p, 1) // the message still waits
	d.end(p, errClosed)
	want := []string{"lost " + nid(1).String(), "down " + nid(1).String() + ": " + lnd.StatusRemoteDropped.String(),
		"sent " + process(1).String() + ": " + lnd.StatusRemoteDropped.String()}
	d.reported(t, "the end of the connection", want...)
	p.Lock()
	d.PutDown(p)
	p.Unlock()
	d.Out.Run()
	d.reported(t, "nothing more has ended")

	id := process(1)
	id.PID = lnet.PIDUserFlag | 7
	user, _ := d.Caller(id, netip.MustParseAddr("10.0.0.1"))
	d.connect(user, 1)
	d.connect(user, 2)
	d.end(user, errClosed)
	d.reported(t, "a process that does not listen")
}

// TestEngineReportsRestarts: each restart is reported once, in order; only then connections of the peer may
// carry messages, and only then Restarted is called.
func TestEngineReportsRestarts(t *testing.T) {
	d := newScripted()
	p, _ := d.Peer(process(1))
	d.connect(p, 1)
	d.connect(p, 1)
	d.reported(t, "one incarnation")
	d.onUp = func(string) {
		if p.Lock(); !p.Unreported() {
			t.Error("the restart counts as reported during the report")
		}
		p.Unlock()
		if p.told > 0 {
			t.Error("the driver was told before the report returned")
		}
		d.onUp = nil
		d.connect(p, 3) // during the report
	}
	d.connect(p, 2)
	again := "restarted " + nid(1).String()
	d.reported(t, "two restarts", again, again)
	if p.told != 2 || p.Unreported() || d.Count.PeersRestarted.Load() != 2 {
		t.Errorf("told %d times, unreported %v", p.told, p.Unreported())
	}
}

// TestEngineSettlesDoubts: a peer in doubt is probed once; it keeps its connections if it answers, and loses
// them, with a report of a restart, if it stays silent.
func TestEngineSettlesDoubts(t *testing.T) {
	for _, answers := range []bool{true, false} {
		d := newScripted()
		p, _ := d.Peer(process(1))
		if d.Probe(nid(1)) || d.Probe(nid(2)) {
			t.Error("a peer without connections is probed")
		}
		d.connect(p, 1)
		for range 2 {
			if !d.Probe(nid(1)) || d.doubts != 1 {
				t.Errorf("%d doubts", d.doubts)
			}
		}
		now := time.Now()
		p.answered = true // the state before the probe shows nothing
		d.SettleDoubt(p, now)
		d.SettleDoubts(now)
		p.answered = false
		if len(d.doubted) > 0 {
			t.Errorf("%d peers are still to be probed", len(d.doubted))
		}
		d.SettleDoubt(p, now.Add(probePatience-1))
		if p.probes != 1 || len(p.closed) > 0 {
			t.Errorf("%d probes, %d closed", p.probes, len(p.closed))
		}
		p.answered = answers
		d.SettleDoubt(p, now.Add(probePatience))
		if closed := len(p.closed) > 0; closed == answers || p.Doubt != (Doubt{}) {
			t.Errorf("answers %v, closed %v, doubt %v", answers, closed, p.Doubt)
		}
		if answers {
			d.reported(t, "an answer")
		} else {
			d.reported(t, "silence", "restarted "+nid(1).String(), "lost "+nid(1).String(), "down "+nid(1).String()+": "+lnd.StatusRemoteDropped.String())
			d.connect(p, 2)
			d.reported(t, "the next incarnation was presumed")
		}
	}
	d := newScripted()
	p, _ := d.Peer(process(1))
	d.connect(p, 1)
	d.Probe(nid(1))
	p.connected = false // meanwhile
	d.SettleDoubts(time.Now())
	if p.Doubt != (Doubt{}) {
		t.Error("a peer without connections is in doubt")
	}
}

// TestEngineJudges: a stall is counted, logged and reported; its end starts all timeouts over.
func TestEngineJudges(t *testing.T) {
	d := newScripted()
	m := d.send(process(1))
	p := d.Find(process(1))
	now := time.Now().Add(StallAfter)
	d.CheckStall(p, &Look{Now: now, Lapse: time.Minute})
	d.reported(t, "a message that waits", "stalled "+nid(1).String()+": true")
	d.connect(p, 1)
	d.CheckStall(p, &Look{Now: now, Conns: 1, Lapse: time.Minute})
	d.reported(t, "a connection", "stalled "+nid(1).String()+": false")
	if d.Count.Stalls.Load() != 1 || p.renewed != 1 || !p.Waiting.Last().Since.Equal(now) || p.Waiting.Last().M != m {
		t.Errorf("%d stalls, renewed %d times, %+v", d.Count.Stalls.Load(), p.renewed, p.Waiting.Last())
	}
	if want := "peer does not answer"; !strings.Contains(d.log.String(), want) {
		t.Errorf("no line %q in the log:\n%s", want, d.log.String())
	}
	id := process(2)
	id.PID = lnet.PIDUserFlag | 7
	user, _ := d.Peer(id)
	user.Waiting.Add(m, now.Add(-time.Hour))
	d.CheckStall(user, &Look{Now: now})
	d.reported(t, "a process that does not listen")
	d.CheckStall(p, &Look{Now: now, Conns: 1, Silent: now.Add(-StallAfter), Lapse: time.Minute})
	d.reported(t, "a silent connection", "stalled "+nid(1).String()+": true")
	p.connected = false
	d.CheckStall(p, &Look{Now: now, Lapse: 0})
	d.reported(t, "a message that does not wait long enough")
	p.Waiting.Cancel()
	d.CheckStall(p, &Look{Now: now, Lapse: time.Minute})
	d.CheckStall(p, &Look{Now: now.Add(time.Minute - 1), Lapse: time.Minute})
	d.reported(t, "nothing to answer, not long enough")
	d.CheckStall(p, &Look{Now: now.Add(time.Minute), Lapse: time.Minute})
	d.reported(t, "nothing to answer", "stalled "+nid(1).String()+": false")
}

// TestEngineExpiresMessages: messages that have waited too long are returned once, and are a loss only
// without a connection.
func TestEngineExpiresMessages(t *testing.T) {
	d := newScripted()
	one, two := d.send(process(1)), d.send(process(1))
	p := d.Find(process(1))
	now := time.Now().Add(time.Minute)
	p.Waiting.list[1].Since = now
	if late := d.Late(p, now, time.Minute); !slices.Equal(late, []*lnd.Tx{one}) || lnd.StatusOf(p.Loss) != lnd.StatusNetworkTimeout {
		t.Errorf("%d late, loss %v", len(late), p.Loss)
	}
	p.Loss, p.connected = nil, true
	if late := d.Late(p, now.Add(time.Minute), time.Minute); !slices.Equal(late, []*lnd.Tx{two}) || p.Loss != nil {
		t.Errorf("%d late, loss %v", len(late), p.Loss)
	}
	if got := d.Count.PendingTimeouts.Load(); got != 2 {
		t.Errorf("%d counted", got)
	}
	p.Loss = errClosed
	d.Late(p, now.Add(time.Hour), time.Minute)
	if p.Loss != errClosed {
		t.Errorf("the loss has become %v", p.Loss)
	}
}

// TestEngineRecalls: matching messages that wait or are queued complete, of one peer or of all.
func TestEngineRecalls(t *testing.T) {
	for _, to := range []lnet.NID{nid(1), {}} {
		d := newScripted()
		p, _ := d.Peer(process(1))
		d.connect(p, 1)
		queued, waiting := d.send(process(1)), d.send(process(2))
		p.connected = false
		stays := d.send(process(1))
		p.connected = true
		d.Recall(to, func(m *lnd.Tx) bool { return m != stays })
		want := []string{"sent " + queued.To.String() + ": " + lnd.StatusLocalInterrupt.String()}
		if to.IsZero() {
			want = append(want, "sent "+waiting.To.String()+": "+lnd.StatusLocalInterrupt.String())
		}
		slices.Sort(want)
		slices.Sort(d.reports)
		d.reported(t, "recall of "+to.String(), want...)
		p.Gone = true
		d.Recall(nid(1), func(*lnd.Tx) bool { return true })
		d.reported(t, "a peer that has left")
		p.Gone = false
		d.LinkBack(nid(1))
		if p.renewed != 1 || d.Find(process(2)).renewed != 0 {
			t.Errorf("renewed %d times", p.renewed)
		}
	}
}

// TestEngineDisconnects: Disconnect closes connections, fails messages that wait as aborted, ends the pause,
// and is no loss.
func TestEngineDisconnects(t *testing.T) {
	d := newScripted()
	d.send(process(1))
	p := d.Find(process(1))
	p.Backoff.Fail(time.Now(), errClosed, 0)
	d.connect(p, 1)
	p.Loss = errClosed
	gone, _ := d.Peer(process(2))
	gone.Backoff.Fail(time.Now(), errClosed, 0)
	d.Forget(gone)
	d.Disconnect(nid(1))
	d.Disconnect(nid(2))
	d.reported(t, "disconnect", "sent "+process(1).String()+": "+lnd.StatusLocalAborted.String(), "lost "+nid(1).String())
	if !slices.Equal(p.closed, []error{ErrDisconnect}) || p.Loss != nil || !p.Backoff.Ready(time.Now()) || d.Find(process(1)) != nil {
		t.Errorf("%+v", p)
	}
	if q, _ := d.Peer(process(2)); !q.Backoff.Ready(time.Now()) {
		t.Error("the pause of a departed peer has not ended")
	}
	d.disconnect(p, lnd.StatusLocalAborted, ErrDisconnect)
	if len(p.closed) != 1 {
		t.Error("a peer that has left was disconnected")
	}
}

// TestEngineStops: Stop fails messages, closes connections without reports about peers, turns new messages
// and callers away, and waits for everything in Group and for the upcalls.
func TestEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newScripted()
		d.send(process(1))
		p := d.Find(process(1))
		d.connect(p, 1)
		d.send(process(2))
		d.Group.Add(1)
		var steps []string
		var result error
		go func() {
			result = d.Stop(context.Background(), func() { steps = append(steps, "leave") }, func() { steps = append(steps, "finish") })
			steps = append(steps, "stopped")
		}()
		synctest.Wait()
		if !slices.Equal(steps, []string{"leave"}) || d.Context.Err() == nil || !d.Closed() || !p.Gone {
			t.Errorf("%v while something is in Group", steps)
		}
		slices.Sort(d.reports)
		d.reported(t, "stop", "sent "+process(1).String()+": "+lnd.StatusRemoteDropped.String(), "sent "+process(2).String()+": "+lnd.StatusRemoteDropped.String())
		d.send(process(1))
		d.send(process(3))
		d.reported(t, "after stop", "sent "+process(1).String()+": "+lnd.StatusRemoteDropped.String(), "sent "+process(3).String()+": "+lnd.StatusRemoteDropped.String())
		if _, err := d.Caller(process(1), netip.MustParseAddr("10.0.0.1")); !errors.Is(err, lnd.ErrClosed) {
			t.Errorf("a caller after stop: %v", err)
		}
		if err := d.Stop(context.Background(), nil, nil); !errors.Is(err, lnd.ErrClosed) {
			t.Errorf("stop again: %v", err)
		}
		p.Lock()
		p.Loss = errClosed
		d.PutDown(p)
		p.Unlock()
		d.Out.Run()
		d.reported(t, "a loss after stop")
		d.Group.Done()
		synctest.Wait()
		if !slices.Equal(steps, []string{"leave", "finish", "stopped"}) || result != nil || d.Len() != 0 {
			t.Errorf("%v, %v, %d peers", steps, result, d.Len())
		}

		late := newScripted()
		late.Group.Add(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := late.Stop(ctx, func() {}, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop without an end: %v", err)
		}
		late.Group.Done()
	})
}

// TestNeighbourShowsTheRightPeer: the record in a message's Neighbour is used only for the interface and the
// process that it belongs to, and not after the peer has left the table or the interface has closed.
func TestNeighbourShowsTheRightPeer(t *testing.T) {
	var n lnd.Neighbour
	a, b := newScripted(), newScripted()
	sent := func(when string, d *scripted, to lnet.ProcessID) *scriptedPeer {
		t.Helper()
		m := &lnd.Tx{To: to, Neighbour: &n, Done: d}
		d.Submit(m, to)
		p := d.Find(to)
		if p == nil || n.Record() != any(p) {
			t.Fatalf("%s: the record is %v, the peer in the table %v", when, n.Record(), p)
		}
		if !slices.Contains(p.sent, m) && p.Waiting.Len() == 0 {
			t.Errorf("%s: the peer does not have the message", when)
		}
		p.Lock()
		p.connected, p.Waiting = true, Waiting{}
		p.Unlock()
		return p
	}
	first := sent("new", a, process(1))
	if again := sent("known", a, process(1)); again != first || len(first.sent) != 1 {
		t.Errorf("%d messages were sent to the peer", len(first.sent))
	}
	sent("other interface", b, process(1))
	sent("other process", a, process(2))
	sent("back", a, process(1))

	a.Disconnect(nid(1))
	if n.Record() != nil {
		t.Errorf("the record is %v after the peer has left", n.Record())
	}
	if again := sent("after it has left", a, process(1)); again == first {
		t.Error("the peer that has left got the message")
	}
	a.reports = nil
	if err := a.Stop(t.Context(), func() {}, func() {}); err != nil {
		t.Fatal(err)
	}
	a.reports = nil
	if n.Record() != nil {
		t.Errorf("the record is %v after the interface has closed", n.Record())
	}
	a.Submit(&lnd.Tx{To: process(1), Neighbour: &n, Done: a}, process(1))
	a.Out.Run()
	a.reported(t, "closed", "sent "+process(1).String()+": "+lnd.StatusRemoteDropped.String())
}

// TestEngineAllocatesNothing: sending to a peer in the table, and the driver's own events, need no memory.
func TestEngineAllocatesNothing(t *testing.T) {
	d := newScripted()
	p, _ := d.Peer(process(1))
	p.connected = true
	p.sent = make([]*lnd.Tx, 0, 1000)
	m := &lnd.Tx{Done: d}
	if n := testing.AllocsPerRun(100, func() {
		d.Submit(m, process(1))
		d.Out.Add(Event{Kind: OwnEvents, Subject: m})
	}); n > 0 || d.own == 0 {
		t.Errorf("%v allocations, %d events", n, d.own)
	}
}

// TestEngineCounts: the counters have the names that all drivers share, with current values first.
func TestEngineCounts(t *testing.T) {
	d := newScripted()
	d.send(process(1))
	d.Count.Connects.Add(3)
	got := map[string]uint64{}
	for _, c := range d.List(5, 6) {
		got[c.Name] = c.Value
		if c.Help == "" || strings.HasSuffix(c.Name, "_total") == (len(got) <= 4) {
			t.Errorf("%d: %+v", len(got), c)
		}
	}
	for name, want := range map[string]uint64{"peers": 1, "connections": 5, "pending_messages": 1, "waiting_calls": 6, "connects_total": 3} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
}

// TestEngineCallee: a peer is known if it was met at its own address, and counts as failed from a failed attempt to
// connect until there is a connection.
func TestEngineCallee(t *testing.T) {
	d := newScripted()
	p, _ := d.Peer(process(1))
	want := func(when string, want Callee) {
		t.Helper()
		if got := d.CalleeFor(p); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	d.Observe(p, 1, false)
	want("it only claimed its NID", UnknownPeers)
	d.Observe(p, 1, true)
	want("it was met at home", KnownPeers)
	p.Backoff.Fail(time.Now(), errors.New("no answer"), 0)
	want("it could not be reached", FailedPeers)
	p.Backoff.Skip()
	want("the pause is cut short", FailedPeers)
	p.Backoff.Reset()
	want("it is connected", KnownPeers)
}
