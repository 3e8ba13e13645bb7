package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	driver "github.com/lnetd/lnetd/lnd/o2iblnd"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// TestReplayRDMA replays the conversations of kernel nodes over RDMA, on the fabric in memory. Our driver
// and node take the place of either kernel. The test sends and writes what the other kernel sent and
// wrote. Our node connects, pings, discovers, pushes, answers and moves bulk data by itself. The test
// makes it do what selftest did. Everything that it sends and writes must equal, byte for byte, what the
// kernel sent and wrote. The exceptions are values that each side chooses: cookies, addresses and keys of
// memory, and numbers of memory descriptors. Fragments are offered as by later kernels, and credits may
// be returned sooner (o2iblnd 9.4).
//
// o2iblnd 2.2 (1), 3.6 agree, 3.7, 10.2 (1), 10.3 (1)
func TestReplayRDMA(t *testing.T) {
	for _, name := range recording.RDMANames() {
		rec, err := recording.LoadRDMA(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rec.Conversations {
			for _, side := range []recording.Side{recording.Active, recording.Passive} {
				t.Run(fmt.Sprint(name, " ", side), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := newRDMAPlay(t, c, side)
						defer p.close()
						p.run()
						p.end()
					})
				})
			}
		}
	}
}

// rdmaPlay is the replay of a conversation, with our node on one side.
type rdmaPlay struct {
	t     *testing.T
	c     *recording.RDMAConversation
	side  recording.Side
	steps []rdmaStep
	begin time.Time

	fab    *fabric.Fabric
	proc   *fabric.Process
	driver *driver.Driver
	node   *node.Node
	kernel *rdmaPeer
	line   *rdmaLine

	cookies  map[o2iblnd.Cookie]o2iblnd.Cookie // recorded cookies to ours
	handles  map[lnet.Handle]lnet.Handle       // likewise
	sinks    []rdmaSink                        // of ours
	owed     int                               // credits that the kernel has returned later than ours
	compared int                               // number of our messages
	rooms    []rdmaRoom
	calls    chan error // results of our node's operations
	asked    int
}

// rdmaStep is a transfer, and its message if it has one.
type rdmaStep struct {
	*recording.Transfer
	m     o2iblnd.Message
	order binary.AppendByteOrder
	ours  bool
	said  bool // the test made our node send it
}

// rdmaSink is memory of our node, and the kernel's descriptor for it.
type rdmaSink struct{ recorded, ours o2iblnd.Descriptor }

// rdmaRoom is our node's buffer for a PUT, and its expected contents.
type rdmaRoom struct{ got, want []byte }

func newRDMAPlay(t *testing.T, c *recording.RDMAConversation, side recording.Side) *rdmaPlay {
	t.Helper()
	p := &rdmaPlay{
		t: t, c: c, side: side, begin: time.Now(), fab: fabric.New(fabric.Config{}),
		cookies: map[o2iblnd.Cookie]o2iblnd.Cookie{}, handles: map[lnet.Handle]lnet.Handle{}, calls: make(chan error, 16),
	}
	for i := range c.Transfers {
		s := rdmaStep{Transfer: &c.Transfers[i], ours: c.Transfers[i].From == side}
		if s.Kind == recording.CMRequest || s.Kind == recording.CMReply || s.Kind == recording.Sent {
			order, err := s.m.Decode(s.Data, o2iblnd.Check)
			if err != nil {
				t.Fatal(err)
			}
			s.order = socklndOrder(order)
		}
		p.steps = append(p.steps, s)
	}
	other := recording.Active + recording.Passive - side
	p.kernel = newRDMAPeer(t, p.fab.Host("kernel", c.Addrs[other].String()), c.Addrs[other])
	p.start()
	p.attach()
	return p
}

// start starts our node in the kernel's place, with its clocks.
func (p *rdmaPlay) start() {
	p.t.Helper()
	var stamp, cookie uint64 = 0, 1
	for i := range p.steps {
		s := &p.steps[i]
		if !s.ours || s.Kind == recording.Written || s.Kind == recording.CMReady {
			continue
		}
		stamp = s.m.SrcStamp
		if h := s.m.LNet; s.Kind == recording.Sent && !h.Handle.IsNone() && (h.Type == lnet.MsgGet || h.Type == lnet.MsgPut) && h.Handle.Interface != 0 {
			cookie = h.Handle.Interface
		}
	}
	p.proc = p.fab.Host("ours", p.c.Addrs[p.side].String()).Open()
	c := driver.DefaultConfig()
	c.Provider, c.Host = p.proc, p.proc.Host()
	c.Wall = func() time.Time { return time.UnixMicro(int64(stamp)) }
	var err error
	if p.driver, err = driver.New(c); err != nil {
		p.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(p.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p.node, err = node.New(node.Config{Logger: log, Wall: func() time.Time { return time.Unix(0, int64(cookie)) }})
	if err != nil {
		p.t.Fatal(err)
	}
	addNI(p.t, p.node, p.driver, p.nid(p.side))
}

func (p *rdmaPlay) nid(s recording.Side) lnet.NID {
	return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeO2IB, 0), p.c.Addrs[s])
}

// isSelftest reports whether a message is a request of selftest.
func (s *rdmaStep) isSelftest() bool {
	h := &s.m.LNet
	return s.Kind == recording.Sent && h.Portal != lnet.ReservedPortal && (h.Type == lnet.MsgPut || h.Type == lnet.MsgGet) &&
		(s.m.Type == o2iblnd.Immediate || s.m.Type == o2iblnd.PutReq || s.m.Type == o2iblnd.GetReq)
}

// content returns the payload of a step: in the message, or in the WRITEs that follow.
func (p *rdmaPlay) content(k int) []byte {
	s := &p.steps[k]
	if s.m.Type == o2iblnd.Immediate {
		b, err := s.m.Content()
		if err != nil {
			p.t.Fatal(err)
		}
		return bytes.Clone(b)
	}
	sink := s.m.Sink
	for i := k + 1; s.m.Type == o2iblnd.PutReq && len(sink.Fragments) == 0; i++ {
		if a := &p.steps[i].m; a.Type == o2iblnd.PutAck && a.Cookie == s.m.Cookie && p.steps[i].Kind == recording.Sent {
			sink = a.Sink
		}
	}
	b := make([]byte, 0, sink.Length())
	for _, x := range p.steps[k+1:] {
		if x.Kind == recording.Written && x.Key == sink.Key && len(b) < cap(b) {
			b = append(b, x.Data...)
		}
	}
	return b
}

// attach attaches buffers for what the kernel will put to selftest's portals, and data for what it will
// get there.
func (p *rdmaPlay) attach() {
	p.t.Helper()
	for k := range p.steps {
		s := &p.steps[k]
		if s.ours || !s.isSelftest() {
			continue
		}
		b := p.content(k)
		md := portals.MD{Bytes: b, Threshold: 1, Unlink: true, Options: portals.OpGet | portals.ManageRemote}
		if s.m.LNet.Type == lnet.MsgPut {
			md.Bytes, md.Options = make([]byte, len(b)), portals.OpPut|portals.ManageRemote
			p.rooms = append(p.rooms, rdmaRoom{md.Bytes, b})
		}
		e := portals.Entry{Portal: s.m.LNet.Portal, MatchBits: s.m.LNet.MatchBits, Position: portals.After}
		if _, err := p.node.Attach(e, md); err != nil {
			p.t.Fatal(err)
		}
	}
}

// run plays the transfers at their times.
func (p *rdmaPlay) run() {
	p.t.Helper()
	var request verbs.Event
	for k := range p.steps {
		s := &p.steps[k]
		time.Sleep(s.At.Sub(p.steps[0].At) - time.Since(p.begin))
		switch s.Kind {
		case recording.CMRequest:
			request = p.request(s)
		case recording.CMReply:
			p.reply(s, request)
		case recording.CMReady:
		case recording.Written:
			if s.ours {
				p.compareWritten(k)
			} else {
				p.write(s)
			}
		case recording.Sent:
			if s.ours {
				p.hear(k)
			} else {
				p.say(s)
			}
		}
		if p.t.Failed() {
			p.t.Fatalf("transfer %d, %v %v", k, s.Kind, s.m.Type)
		}
	}
}

// request plays the connection request.
func (p *rdmaPlay) request(s *rdmaStep) (e verbs.Event) {
	p.t.Helper()
	if !s.ours {
		p.kernel.call(p.c.Addrs[p.side], s.Data)
		return e
	}
	p.act()
	e, ok := p.kernel.take()
	if !ok {
		p.t.Fatal("our node does not call")
	}
	want := s.m
	want.Params.Fragments = o2iblnd.MaxOffered // so that no version needs a second try (o2iblnd 15)
	p.compareBytes(e.Private[:e.PrivateLen], p.encode(s, &want))
	if e.Remote.Port() != p.c.Port || e.Retries != 5 || e.RNRRetries != 6 {
		p.t.Errorf("our node calls from %v, with %d and %d retries", e.Remote, e.Retries, e.RNRRetries)
	}
	return e
}

// reply plays the answer to the connection request.
func (p *rdmaPlay) reply(s *rdmaStep, request verbs.Event) {
	p.t.Helper()
	if !s.ours {
		m := s.m
		m.Params.Fragments = min(m.Params.Fragments, o2iblnd.MaxOffered)
		p.kernel.accept(request.ID, p.encode(s, &m))
		p.line = p.kernel.line(request.ID)
		synctest.Wait()
		return
	}
	e, ok := p.kernel.event()
	if !ok || e.Kind != verbs.EventEstablished {
		p.t.Fatalf("our node does not accept: %v, status %d", e.Kind, e.Status)
	}
	p.compareBytes(e.Private[:verbs.MaxConnectPrivate], s.Data[:verbs.MaxConnectPrivate])
	p.line = p.kernel.line(e.ID)
}

// act makes our node do what an administrator did before its next message: discovery, a ping, or
// selftest.
func (p *rdmaPlay) act() {
	p.t.Helper()
	other := p.nid(recording.Active + recording.Passive - p.side)
	p.asked++
	var do func() error
	switch first := p.next(0); {
	case p.steps[first].m.LNet.Length != lnet.PingBufferMin && p.asked == 1:
		do = func() error {
			_, err := p.node.Ping(context.Background(), lnet.ProcessID{NID: other}, node.PingOptions{})
			return err
		}
	case p.asked == 1:
		p.asked--
		for k := range p.steps {
			if s := &p.steps[k]; s.ours && s.isSelftest() {
				p.send(k)
				return
			}
		}
	default:
		do = func() error {
			_, err := p.node.Discover(context.Background(), other)
			return err
		}
	}
	go func() { p.calls <- do() }()
}

// next returns the first message of ours from step k on.
func (p *rdmaPlay) next(k int) int {
	for !p.steps[k].ours || p.steps[k].Kind != recording.Sent {
		k++
	}
	return k
}

// send sends the recorded message of selftest from our node.
func (p *rdmaPlay) send(k int) {
	p.t.Helper()
	s := &p.steps[k]
	s.said = true
	h := &s.m.LNet
	to, content := lnet.ProcessID{NID: h.Dest, PID: h.DestPID}, p.content(k)
	if h.Type == lnet.MsgGet {
		got := make([]byte, h.Length)
		p.rooms = append(p.rooms, rdmaRoom{got, content})
		p.asked++
		go func() {
			_, err := p.node.GetWait(context.Background(), got, to, node.GetOptions{Portal: h.Portal, MatchBits: h.MatchBits, Offset: h.Offset})
			p.calls <- err
		}()
		return
	}
	md, err := p.node.Bind(portals.MD{Bytes: content, Threshold: 1, Unlink: true})
	if err != nil {
		p.t.Fatal(err)
	}
	err = p.node.Put(md, to, node.PutOptions{Portal: h.Portal, MatchBits: h.MatchBits, Offset: h.Offset, HdrData: h.HdrData})
	if err != nil {
		p.t.Fatal(err)
	}
}

// say sends a message of the kernel, with our cookies and handles and its own memory.
func (p *rdmaPlay) say(s *rdmaStep) {
	p.t.Helper()
	m := s.m
	switch m.Type {
	case o2iblnd.PutAck, o2iblnd.PutNak, o2iblnd.PutDone, o2iblnd.GetDone:
		m.Cookie = p.cookies[m.Cookie]
	case o2iblnd.Immediate:
		if h, ok := p.handles[m.LNet.Handle]; ok && (m.LNet.Type == lnet.MsgAck || m.LNet.Type == lnet.MsgReply) {
			m.LNet.Handle = h
		}
	}
	if len(m.Sink.Fragments) > 0 {
		m.Sink = o2iblnd.Descriptor{Key: p.kernel.bulk.RKey(), Fragments: []o2iblnd.Fragment{
			{Addr: p.kernel.bulk.Addr(), Length: uint32(m.Sink.Length())},
		}}
	}
	if err := p.line.say(p.encode(s, &m)); err != nil {
		p.t.Error(err)
	}
}

// encode encodes a message like that of a step, with its payload.
func (p *rdmaPlay) encode(s *rdmaStep, m *o2iblnd.Message) []byte {
	p.t.Helper()
	b, err := m.Append(nil, s.order)
	if err != nil {
		p.t.Fatal(err)
	}
	if m.Type != o2iblnd.Immediate {
		return b
	}
	content, err := m.Content()
	if err != nil {
		p.t.Fatal(err)
	}
	return append(b, content...)
}

// write writes to our memory what the kernel wrote to that of the recorded node.
func (p *rdmaPlay) write(s *rdmaStep) {
	p.t.Helper()
	for _, k := range p.sinks {
		at := uint64(0) // offset in the sink
		for _, f := range k.recorded.Fragments {
			if k.recorded.Key == s.Key && s.Addr >= f.Addr && s.Addr < f.Addr+uint64(f.Length) {
				at += s.Addr - f.Addr
				copy(p.kernel.bulk.Bytes(), s.Data)
				if err := p.line.write(len(s.Data), k.ours.Fragments[0].Addr+at, k.ours.Key); err != nil {
					p.t.Error(err)
				}
				return
			}
			at += uint64(f.Length)
		}
	}
	p.t.Errorf("a WRITE to %#x with key %#x", s.Addr, s.Key)
}

// compareWritten compares what our node has written with what the kernel wrote. The sink is as long as
// all of the kernel's writes together.
func (p *rdmaPlay) compareWritten(k int) {
	p.t.Helper()
	s, at := &p.steps[k], 0
	for _, x := range p.steps[:k] {
		if x.Kind == recording.Written && x.Key == s.Key {
			at += len(x.Data)
		}
	}
	synctest.Wait()
	if !bytes.Equal(p.kernel.bulk.Bytes()[at:at+len(s.Data)], s.Data) {
		p.t.Error("our node has written something else")
	}
}

// hear compares our node's next message with the recorded one. It first makes our node do what it does
// not do by itself.
func (p *rdmaPlay) hear(k int) {
	p.t.Helper()
	s := &p.steps[k]
	if s.isSelftest() && !s.said {
		p.send(k)
	} else if len(p.line.heard()) == 0 {
		p.act()
	}
	heard := p.line.heard()
	var m o2iblnd.Message
	for n, b := range heard[:min(2, len(heard))] {
		if _, err := m.Decode(b, o2iblnd.Check); err != nil {
			p.t.Fatal(err)
		}
		if m.Type != s.m.Type || m.LNet.Type != s.m.LNet.Type {
			continue // the place of an ACK beside a push depends on timing
		}
		p.line.drop(n)
		p.allow(s, &m)
		p.compared++
		p.compareBytes(p.encode(s, &m), p.encode(s, &s.m))
		return
	}
	p.t.Errorf("our node has %d messages to say, and none is a %v %v", len(heard), s.m.Type, s.m.LNet.Type)
}

// allow replaces our values by the recorded ones where they may differ.
func (p *rdmaPlay) allow(s *rdmaStep, m *o2iblnd.Message) {
	p.t.Helper()
	want := &s.m
	own := func(ours *o2iblnd.Cookie, recorded o2iblnd.Cookie) {
		p.cookies[recorded] = *ours
		*ours = recorded
	}
	switch m.Type {
	case o2iblnd.PutReq, o2iblnd.GetReq:
		own(&m.Cookie, want.Cookie)
	case o2iblnd.PutAck:
		own(&m.SinkCookie, want.SinkCookie)
	}
	if n := len(m.Sink.Fragments); n > 0 && m.Sink.Length() == want.Sink.Length() {
		p.sinks = append(p.sinks, rdmaSink{want.Sink, m.Sink})
		m.Sink = want.Sink
	}
	w, g := &want.LNet, &m.LNet
	if w.Type == g.Type && (g.Type == lnet.MsgGet || g.Type == lnet.MsgPut) && w.Handle.Interface == g.Handle.Interface && !w.Handle.IsNone() {
		p.handles[w.Handle] = g.Handle
		g.Handle = w.Handle
	}
	p.owed += int(m.Credits) - int(want.Credits)
	m.Credits = want.Credits
}

func (p *rdmaPlay) compareBytes(got, want []byte) {
	p.t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	var g, w o2iblnd.Message
	_, err := g.Decode(got, o2iblnd.Check)
	_, err2 := w.Decode(want, o2iblnd.Check)
	diff := cmp.Diff(w, g, cmp.Comparer(func(a, b lnet.NID) bool { return a == b }))
	p.t.Errorf("kernel (-), we (+), %v:\n%s", errors.Join(err, err2), diff)
}

// end checks that everything has come and nothing is left.
func (p *rdmaPlay) end() {
	p.t.Helper()
	p.t.Logf("%d messages of ours are the kernel's, and of %d bulks what they carry", p.compared, len(p.rooms))
	if p.owed < 0 { // at the end our node may be ahead of what the kernel had received
		p.t.Errorf("our node has returned %d credits fewer than the kernel", -p.owed)
	}
	if left := p.line.heard(); len(left) > 0 {
		p.t.Errorf("our node says %d messages more than the kernel", len(left))
	}
	for range p.asked {
		select {
		case err := <-p.calls:
			if err != nil {
				p.t.Error(err)
			}
		default:
			p.t.Error("what our node was asked for has no end")
		}
	}
	if k := slices.IndexFunc(p.rooms, func(r rdmaRoom) bool { return !bytes.Equal(r.got, r.want) }); k >= 0 {
		p.t.Errorf("of %d bytes that were to come to our node some are others", len(p.rooms[k].want))
	}
	if e, ok := p.kernel.event(); ok && e.Kind != verbs.EventEstablished {
		p.t.Errorf("the kernel was told: %v", e.Kind)
	}
}

func (p *rdmaPlay) close() {
	p.t.Helper()
	if err := p.node.Close(context.Background()); err != nil {
		p.t.Error(err)
	}
	if err := p.driver.Close(); err != nil {
		p.t.Error(err)
	}
	if err := p.proc.Close(); err != nil {
		p.t.Error(err)
	}
	p.kernel.proc.Kill()
	p.fab.Close()
}
