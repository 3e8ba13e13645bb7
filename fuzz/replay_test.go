package fuzz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/internal/testing/tshark"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// These tests replay recorded conversations between kernel nodes live, over TCP sockets. Our socklnd and
// node take the place of one of the kernels. The test sends what the others sent in the recording. It
// makes our node do what an administrator, or selftest, made the kernel do (roles). Our node connects,
// discovers, pushes, routes and answers by itself. Everything that it sends must equal, byte for byte and
// on the same connections, what the kernel in its place sent. A role names the exceptions (allowance).
//
// Values that a node takes from its wall clock come from the recording: the interface cookie in its
// handles and the incarnations of its NIs. Addresses and ports are those of the recording. Sockets on
// loopback carry the bytes (stage). On each connection our node must keep the recorded order. Units of
// different connections are sent in the recorded order, but our node may be ahead of it. At the end,
// tshark decodes everything that our node has sent.
func TestReplay(t *testing.T) {
	playAll(t, roles, func(p *replay) {
		p.run()
		p.probe()
		p.compareState()
		p.compareDelivered()
		p.end()
	})
}

// playAll plays all roles, each with course, and then has tshark decode what our node has sent.
func playAll(t *testing.T, roles []*role, course func(p *replay)) {
	var mu sync.Mutex
	var said []tshark.Stream
	t.Run("roles", func(t *testing.T) {
		for _, r := range roles {
			t.Run(r.file+" "+r.name, func(t *testing.T) {
				t.Parallel()
				p := newPlay(t, r)
				p.startNode()
				course(p)
				p.checkAllowances()
				mu.Lock()
				defer mu.Unlock()
				said = append(said, p.streams()...)
			})
		}
	})
	t.Run("tshark", func(t *testing.T) { tshark.Check(t, said...) })
}

// replay is the replay of one recording, with our node in one role.
type replay struct {
	t     *testing.T
	role  *role
	steps []*step
	acts  []adminAction
	left  int           // units after role.until
	ends  []adminAction // ends of connections; our node may wait for an answer at that time
	begin time.Time
	us    []lnet.NID // NIDs of our node's HELLOs

	stage       *stage
	node        *node.Node
	driver      *socklnd.Driver
	incarnation atomic.Uint64    // of the next NI
	rooms       []receiveBuffer  // buffers for messages to selftest's portals
	delivered   *node.EventQueue // messages that arrived there
	expected    int              // messages that were sent there and have not arrived
	selftest    *selftester      // runs selftest; nil: p.send sends its messages

	wires   map[*recording.Conversation]*wire
	ended   map[*recording.Conversation]bool
	handles map[lnet.Handle]lnet.Handle // recorded handle to our node's handle
	used    map[allowance]int
	calls   chan error // results of our node's operations
	asked   int
	onPing  func() // called when our node has sent its next ping
}

// step is one unit of the recording.
type step struct {
	recording.TimedUnit
	c    *recording.Conversation
	at   time.Duration // since the first packet
	ours bool          // sent by the node that ours replaces
	said bool          // the test made our node send it
	done bool
}

func newPlay(t *testing.T, r *role) *replay {
	t.Helper()
	rec, err := recording.Load(r.file)
	if err != nil {
		t.Fatal(err)
	}
	p := &replay{t: t, role: r, acts: slices.Clone(r.acts), begin: rec.Conversations[0].Opened,
		wires: map[*recording.Conversation]*wire{}, ended: map[*recording.Conversation]bool{},
		handles: map[lnet.Handle]lnet.Handle{}, used: map[allowance]int{},
		calls: make(chan error, 256)}
	var devices []hostnet.Device
	for _, d := range r.devices {
		device := hostnet.Device{Name: d.name, Up: true}
		for _, a := range strings.Fields(d.addrs) {
			device.Addrs = append(device.Addrs, netip.MustParsePrefix(a))
		}
		devices = append(devices, device)
	}
	p.stage = newStage(t, devices)
	for _, c := range rec.Conversations {
		ours := slices.IndexFunc(c.Addrs[:], func(a netip.AddrPort) bool {
			return slices.ContainsFunc(devices, func(d hostnet.Device) bool { return d.Has(a.Addr()) })
		})
		if ours < 0 {
			continue // between others
		}
		units, err := c.Units()
		if err != nil {
			t.Fatal(err)
		}
		p.closes(c, recording.Side(ours))
		for _, u := range units {
			if r.until > 0 && u.Begin.Sub(p.begin) > r.until {
				p.left++
				continue
			}
			s := &step{TimedUnit: u, c: c, at: u.Begin.Sub(p.begin), ours: u.From == recording.Side(ours)}
			p.steps = append(p.steps, s)
			if s.ours && s.Kind == recording.KindHello && !slices.Contains(p.us, s.Hello.Src) {
				p.us = append(p.us, s.Hello.Src)
			}
		}
	}
	slices.SortStableFunc(p.ends, func(a, b adminAction) int { return cmp.Compare(a.at, b.at) })
	slices.SortStableFunc(p.steps, func(a, b *step) int { return a.Begin.Compare(b.Begin) })
	return p
}

// run plays the steps in the order of the recording. It sends those of the kernels and waits for those of
// our node, after the acts and selftest messages that cause them.
func (p *replay) run() {
	p.t.Helper()
	for _, s := range p.steps {
		p.act(s.at)
		if !s.ours {
			p.say(s)
		} else if !s.done {
			if !s.said && p.selftest == nil && p.isSelftest(s) {
				p.send(s)
			}
			p.hear(s)
		}
		if s.Kind == recording.KindHello && s.From == recording.Passive {
			p.stage.await(callOf(s.c))
		}
		if p.onPing != nil && s.IsPing() {
			p.onPing()
			p.onPing = nil
		}
	}
	for range p.asked {
		select {
		case err := <-p.calls:
			if err != nil {
				p.t.Error(err)
			}
		case <-time.After(patience):
			p.t.Fatal("what our node was asked for has no end")
		}
	}
}

// act performs the acts up to a time.
func (p *replay) act(until time.Duration) {
	p.t.Helper()
	for {
		switch end, act := len(p.ends) > 0 && p.ends[0].at <= until, len(p.acts) > 0 && p.acts[0].at <= until; {
		case end && (!act || p.ends[0].at < p.acts[0].at):
			do := p.ends[0].do
			p.ends = p.ends[1:]
			do(p)
		case act:
			do := p.acts[0].do
			p.acts = p.acts[1:]
			p.settle()
			do(p)
		default:
			return
		}
	}
}

// settle waits until our node has processed what it received. A kernel has seconds for that.
func (p *replay) settle() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	busy := func(q node.PeerInfo) bool { return q.State.Has(discovery.Discovering) }
	errNothing := errors.New("nothing is to change")
	for {
		// The discoverer handles this after everything that it received before.
		err := p.node.Admin().ChangePolicies(ctx, func(*selection.Policies) error { return errNothing })
		if !errors.Is(err, errNothing) {
			p.t.Fatalf("our node does not come to rest: %v", err)
		}
		if !slices.ContainsFunc(p.node.Peers(), busy) {
			return
		}
	}
}

// ask starts an operation of our node that ends after others have answered.
func (p *replay) ask(f func() error) {
	p.asked++
	go func() { p.calls <- f() }()
}

// say sends a unit of a kernel. Values of ours that it sends back are replaced by those that our node
// sent.
func (p *replay) say(s *step) {
	p.t.Helper()
	u := s.Unit
	if u.Kind == recording.KindMessage && (u.Header.Type == lnet.MsgAck || u.Header.Type == lnet.MsgReply) {
		if ours, ok := p.handles[u.Header.Handle]; ok && ours != u.Header.Handle {
			u.Header.Handle = ours
			rewrite(p.t, &u)
		}
	}
	if p.selftest != nil {
		p.selftest.answers(&u)
	}
	if u.Kind == recording.KindNoop && p.used[zeroCopyRequests] > 0 {
		return // it acknowledges something that our node has not requested
	}
	if slices.ContainsFunc(p.rooms, func(r receiveBuffer) bool { return r.step == s }) {
		p.expected++
	}
	p.wire(s.c).say(&u)
}

// hear waits for the next unit of our node on the connection of s, which must be s.
func (p *replay) hear(s *step) {
	p.t.Helper()
	for {
		got := p.wire(s.c).next(fmt.Sprintf("our %s of %v", s.Name(), s.at))
		other := p.swapped(s, &got)
		if other == nil {
			p.match(s, &got)
			return
		}
		p.match(other, &got)
		p.used[placesOfACKs]++
	}
}

// swapped returns the step after s on its connection if our node has sent that one first and one of the
// two is an ACK.
func (p *replay) swapped(s *step, got *recording.Unit) *step {
	isACK := func(u *recording.Unit) bool { return u.Kind == recording.KindMessage && u.Header.Type == lnet.MsgAck }
	if isACK(&s.Unit) == isACK(got) {
		return nil
	}
	for _, o := range p.steps[slices.Index(p.steps, s):] {
		if o.ours && !o.done && o.c == s.c && isACK(&o.Unit) == isACK(got) {
			return o
		}
	}
	return nil
}

// match compares a unit of our node with a step.
func (p *replay) match(s *step, got *recording.Unit) {
	p.t.Helper()
	s.done = true
	u := *got
	if !s.Header.Handle.IsNone() && s.Header.Type == u.Header.Type {
		p.handles[s.Header.Handle] = u.Header.Handle
	}
	names := allow(&s.Unit, &u)
	if p.selftest != nil {
		names = append(names, p.selftest.allow(&s.Unit, &u)...)
	}
	for _, name := range names {
		p.used[name]++
	}
	if len(names) > 0 {
		rewrite(p.t, &u)
	}
	if diff := difference(&s.Unit, &u); diff != "" {
		p.t.Errorf("%s at %v on %s: kernel (-), we (+):\n%s", s.Name(), s.at, s.c.Addrs[recording.Active], diff)
		if s.Name() != u.Name() {
			p.t.FailNow()
		}
	}
}

// wire returns the kernel's end of a conversation. Our node has opened the connection, or the kernel
// opens it now.
func (p *replay) wire(c *recording.Conversation) *wire {
	p.t.Helper()
	if w := p.wires[c]; w != nil {
		return w
	}
	w := &wire{t: p.t, name: c.Addrs[recording.Active].String(), others: p.waiting}
	at := callOf(c)
	if p.stage.has(at.from.Addr()) {
		w.conn = p.stage.accept(at)
	} else {
		w.conn = p.stage.call(at)
	}
	p.wires[c] = w
	return w
}

func callOf(c *recording.Conversation) call {
	return call{c.Addrs[recording.Active], c.Addrs[recording.Passive]}
}

// waiting describes what our node has sent and was not checked.
func (p *replay) waiting() string {
	var s strings.Builder
	for _, c := range p.order() {
		if w := p.wires[c]; w != nil {
			s.WriteString(w.waiting())
		}
	}
	fmt.Fprintf(&s, "calls that nobody has taken: %v\n", p.stage.unexpected())
	return s.String()
}

// order returns the conversations in order of their first step.
func (p *replay) order() []*recording.Conversation {
	var all []*recording.Conversation
	for _, s := range p.steps {
		if !slices.Contains(all, s.c) {
			all = append(all, s.c)
		}
	}
	return all
}
