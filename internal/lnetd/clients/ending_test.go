package clients

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// A client that released everything before it closed is not logged. A client that did not is logged in
// one line, with what it held.
//
// transport-tests P (121)
// transport 9.10
func TestLines(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	o.tm.submit(good(o.buffer, 1, o.tm.at)[shm.OpMsgSend])
	o.tm.next()
	o.must(&protocol.TMStop{Handle: o.tm.handle}, &protocol.Counters{})
	o.must(&protocol.BufDeregister{Index: o.buffer.Index, Generation: o.buffer.Generation}, &protocol.Empty{})
	o.must(&protocol.AreaDel{Area: o.memory.id}, &protocol.Empty{})
	_ = o.conn.Close()
	w.empty()
	if lines := w.log.lines(); len(lines) != 0 {
		t.Errorf("%q", lines)
	}

	o = w.one(7, 16)
	o.tm.submit(good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv])
	eventually(t, "it waits", func() bool { return w.server.Clients()[0].TMs[0].Queues[transport.MsgRecv].Depth == 1 })
	_ = o.conn.Close()
	w.empty()
	lines := w.log.lines()
	if len(lines) != 1 || !strings.Contains(lines[0], "tms=1 buffers=1 areas=1 operations=1") || !strings.Contains(lines[0], "program=test") {
		t.Errorf("%q", lines)
	}
	w.one(7, 16) // its address is free again
}

// A client that is dropped receives the reason. Another client is not affected.
func TestDrop(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.one(7, 16), w.one(8, 16)
	if err := w.server.Drop(a.hello.Connection); err != nil {
		t.Fatal(err)
	}
	a.cut(syscall.ECONNABORTED, "administrator")
	eventually(t, "it is gone", func() bool { return len(w.server.Clients()) == 1 })
	if err := w.server.Drop(a.hello.Connection); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("dropped again: %v", err)
	}
	b.must(&protocol.Nop{}, &protocol.Nop{})
	w.one(7, 16)
}

// The reason arrives even if lnetd has not read all requests of the client.
//
// transport 9.9 (9)
func TestReasonBehindRequests(t *testing.T) {
	w := newWorld(t, nil)
	for range 20 {
		p := w.join()
		nop, err := protocol.AppendRequest(nil, 1, &protocol.Nop{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.write(append([]byte("none"), nop...)); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			_ = p.write(nop) // the connection may already be closed
		}
		p.cut(syscall.EPROTO, "")
	}
}

// Close notifies clients that lnetd ends and waits until they close. It disconnects those that do not.
// Nothing is left, and no new client is accepted.
//
// transport 9.10
func TestClose(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Farewell = time.Hour })
	stays, goes := w.one(7, 16), w.one(8, 16)
	stays.tm.submit(good(stays.buffer, 1, stays.tm.at)[shm.OpMsgRecv])
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error)
	go func() { closed <- w.server.Close(ctx) }()
	for _, o := range []*one{stays, goes} {
		b := make([]byte, protocol.MaxRecord)
		n, err := o.conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		var notice protocol.Notice
		if h, body, err := protocol.DecodeReply(b[:n]); err != nil || h.Opcode != protocol.OpNotice || notice.Decode(body) != nil ||
			notice.Kind != protocol.NoticeGoingDown || notice.Value != 3600 {
			t.Errorf("%+v, %+v, %v", h, notice, err)
		}
	}
	goes.must(&protocol.Nop{}, &protocol.Nop{})
	_ = goes.conn.Close()
	eventually(t, "one is left", func() bool { return len(w.server.Clients()) == 1 })
	cancel()
	stays.cut(syscall.ESHUTDOWN, "lnetd is stopping")
	if err := <-closed; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := w.server.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if c := w.server.Clients(); len(c) != 0 {
		t.Errorf("left: %+v", c)
	}
}

// slowCore is a Core whose operations end when letGo is called.
type slowCore struct {
	transport.Core
	slow *slow
}

// slow holds operations, of all domains of a Core.
type slow struct {
	mu   sync.Mutex
	held []func()
	done bool
	size int // of descriptors; 0: the Core's

	refuse atomic.Bool // Adopt fails
}

func newSlowCore() *slowCore {
	return &slowCore{Core: mem.New(mem.Config{}).Host(home), slow: new(slow)}
}

func (c *slowCore) Open(ctx context.Context) (transport.CoreDomain, error) {
	d, err := c.Core.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &slowDomain{Domain: d.(completion.Domain), slow: c.slow}, nil
}

type slowDomain struct {
	completion.Domain
	*slow
}

func (d *slowDomain) Limits() transport.Limits {
	l := d.Domain.Limits()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size > 0 {
		l.DescriptorSize = d.size
	}
	return l
}

func (d *slowDomain) Adopt(ctx context.Context, b []byte) error {
	if d.refuse.Load() {
		return syscall.ENOMEM
	}
	return d.Domain.Adopt(ctx, b)
}

func (d *slowDomain) StartTMTo(ctx context.Context, a transport.Address, to completion.Sink) (completion.TM, error) {
	return d.Domain.StartTMTo(ctx, a, slowSink{to, d})
}

// letGo ends all operations that are held. Later ones are not held.
func (d *slow) letGo() {
	d.mu.Lock()
	held := d.held
	d.held, d.done = nil, true
	d.mu.Unlock()
	for _, f := range held {
		f()
	}
}

type slowSink struct {
	completion.Sink
	domain *slowDomain
}

func (s slowSink) Push(c transport.Completion) {
	s.domain.mu.Lock()
	held := !s.domain.done && c.Final
	if held {
		s.domain.held = append(s.domain.held, func() { s.Sink.Push(c) })
	}
	s.domain.mu.Unlock()
	if !held {
		s.Sink.Push(c)
	}
}

// An operation that does not end keeps its TM, buffer and memory after its client has gone, but nothing
// else.
//
// transport 8.5
func TestOperationsThatDoNotEnd(t *testing.T) {
	core := newSlowCore()
	w := newWorld(t, func(c *Config) { c.Core, c.Grace = core, time.Millisecond })
	o := w.one(7, 16)
	o.start(34, 8, 16)
	spare := o.share(4096)
	o.register(protocol.Range{Area: spare.id, Length: 1})
	o.tm.submit(good(o.buffer, 1, o.tm.at)[shm.OpMsgSend])
	eventually(t, "it is under way", func() bool {
		core.slow.mu.Lock()
		defer core.slow.mu.Unlock()
		return len(core.slow.held) == 1
	})
	_ = o.conn.Close()
	eventually(t, "it is all that is left", func() bool {
		i := w.server.Clients()[0]
		return i.Ending && len(i.TMs) == 1 && i.TMs[0].Address == o.tm.at && i.Buffers == 1 && i.Areas == 1 && i.Bytes == 4096
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := w.server.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed: %v", err)
	}
	core.slow.letGo()
	w.empty()
}

// A client is notified when descriptors become longer.
//
// transport 9.2
func TestChangedLimits(t *testing.T) {
	core := newSlowCore()
	w := newWorld(t, func(c *Config) { c.Core = core })
	p := w.join()
	core.slow.mu.Lock()
	core.slow.size = transport.LargeDescriptorSize
	core.slow.mu.Unlock()
	for range 2 {
		p.must(&protocol.NIDsGet{}, &protocol.NIDsReply{})
	}
	if len(p.notices) != 1 || p.notices[0] != (protocol.Notice{Kind: protocol.NoticeLimits, Value: transport.LargeDescriptorSize}) {
		t.Errorf("%+v", p.notices)
	}
}

// When the Core is closed, its clients receive the reason.
func TestCoreIsGone(t *testing.T) {
	core := newSlowCore()
	w := newWorld(t, func(c *Config) { c.Core = core })
	o := w.one(7, 16)
	tm, err := w.client(o.peer).tm(o.tm.handle)
	if err != nil {
		t.Fatal(err)
	}
	tm.PushTM(transport.Completion{Down: true, Err: syscall.EPIPE})
	o.cut(syscall.ESHUTDOWN, "the node of lnetd is closed")
}

// A client that wants all features gets those that this lnetd has.
//
// transport 9.11
func TestAllFeatures(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.PollTime = time.Hour })
	p := w.dial()
	p.must(&protocol.Hello{Lowest: 1, Highest: 1, Wanted: ^protocol.Features(0)}, &p.hello)
	if p.hello.Features != protocol.Implemented {
		t.Errorf("granted %v", p.hello.Features)
	}
}

// Log lines about clients that end badly are limited, and the number of suppressed lines is logged.
//
// transport 9.9 (9)
func TestLinesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	const bad = 20
	for range bad {
		o := w.join()
		_ = o.write([]byte("none"))
		eventually(t, "it is gone", func() bool { return len(w.server.Clients()) == 0 })
	}
	if err := w.server.Close(t.Context()); err != nil {
		t.Error(err)
	}
	lines := w.log.lines()
	if len(lines) != 2 || !strings.Contains(lines[1], " more=18") { // all came from one process
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// A client may end in many ways while it holds something, or after it broke a rule. In each case one line
// has the reason and what it held.
//
// transport 9.9 (9), 9.10
func TestOneLineEach(t *testing.T) {
	const all = "tms=1 buffers=1 areas=1 operations=1"
	for name, c := range map[string]struct {
		end   func(w *world, o *one)
		words []string
	}{
		"gone":      {func(_ *world, o *one) { _ = o.conn.Close() }, []string{"level=INFO", "without closing", all}},
		"dropped":   {func(w *world, o *one) { _ = w.server.Drop(o.hello.Connection) }, []string{"level=WARN", "an administrator", all}},
		"record":    {func(_ *world, o *one) { _ = o.write([]byte("none")) }, []string{"level=WARN", "disconnected by lnetd", "protocol error", all}},
		"operation": {func(_ *world, o *one) { o.tm.submit(shm.Submission{Opcode: shm.OpMsgSend, Buffer: 99}) }, []string{"level=WARN", "buffer 99 does not exist", all}},
		"ring":      {func(w *world, o *one) { w.client(o.peer).cutOff(errDown) }, []string{"level=WARN", "the node of lnetd is closed", all}},
		"end":       {func(w *world, _ *one) { _ = w.server.Close(context.Background()) }, []string{"level=INFO", "lnetd is stopping", all}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			o := w.one(7, 16)
			o.tm.begin(good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv])
			c.end(w, o)
			w.empty()
			lines := w.log.lines()
			if len(lines) != 1 {
				t.Fatalf("%d lines: %q", len(lines), lines)
			}
			for _, want := range append(c.words, "program=test", "pid=", "uid=") {
				if !strings.Contains(lines[0], want) {
					t.Errorf("%s: no %q", lines[0], want)
				}
			}
		})
	}
}
