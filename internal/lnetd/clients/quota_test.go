package clients

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// mine is a rule for the user of this process with quotas.
func mine(connection, user Quotas) func(*Config) {
	return func(c *Config) {
		c.Rules = []Rule{{Name: "mine", UIDs: []uint32{uint32(os.Geteuid())}, Connection: connection, User: user}}
	}
}

// Adjacent ranges become one segment. The number of segments is limited by the number of buffers
// permitted.
//
// transport 9.8
func TestQuotaOfSegments(t *testing.T) {
	w := newWorld(t, mine(Quotas{Buffers: 2}, Quotas{}))
	p := w.join()
	a := p.share(1 << 20)
	ranges := func(n, apart int) (all []protocol.Range) {
		for i := range n {
			all = append(all, protocol.Range{Area: a.id, Offset: uint64(i * apart), Length: 100})
		}
		return all
	}
	p.refused(&protocol.BufRegister{Ranges: ranges(2*segmentsPerBuffer+1, 101)}, syscall.EDQUOT)
	p.register(ranges(256, 100)...)
	b := p.register(ranges(2*segmentsPerBuffer-1, 99)...)
	w.charged(p, amounts{ofAreas: 1, ofBytes: 1 << 20, ofBuffers: 2, ofSegments: 2 * segmentsPerBuffer})
	p.must(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation}, &protocol.Empty{})
	w.charged(p, amounts{ofAreas: 1, ofBytes: 1 << 20, ofBuffers: 1, ofSegments: 1})
}

// A request beyond a quota of the connection or of the user is refused and charges nothing. Released
// resources can be used again.
//
// transport-tests P (122)
// transport 9.8
func TestQuotas(t *testing.T) {
	q := Quotas{TMs: 2, Buffers: 2, Areas: 3, RingEntries: 20, Bytes: 16384}
	for name, change := range map[string]func(*Config){"Connection": mine(q, Quotas{}), "User": mine(Quotas{}, q)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			p := w.join()
			a := p.share(8192)
			b := p.register(protocol.Range{Area: a.id, Length: 1})
			p.register(protocol.Range{Area: a.id, Length: 1})
			p.refused(&protocol.BufRegister{Ranges: []protocol.Range{{Area: a.id, Length: 1}}}, syscall.EDQUOT)
			p.must(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation}, &protocol.Empty{})
			p.register(protocol.Range{Area: a.id, Length: 1})

			start := protocol.TMStart{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: protocol.DynamicTMID, Completions: 16}
			one := p.start(34, protocol.DynamicTMID, 16)
			p.refused(&start, syscall.EDQUOT) // entries
			p.start(34, protocol.DynamicTMID, 4)
			start.Completions = 1
			p.must(&protocol.TMStop{Handle: one.handle}, &protocol.Counters{})
			p.start(34, protocol.DynamicTMID, 2)
			p.refused(&start, syscall.EDQUOT) // TMs

			add := func(size int64) error {
				_, err := p.request(&protocol.AreaAdd{Size: uint64(size)}, &protocol.AreaAddReply{}, memfd(t, size, 2))
				return err
			}
			if err := add(12288); !errors.Is(err, syscall.EDQUOT) {
				t.Errorf("too many bytes: %v", err)
			}
			for range 2 {
				if err := add(4096); err != nil {
					t.Error(err)
				}
			}
			if err := add(4096); !errors.Is(err, syscall.EDQUOT) {
				t.Errorf("too many areas: %v", err)
			}
			if i := w.server.Clients()[0]; i.Bytes != 16384 || i.Areas != 3 || i.Buffers != 2 || len(i.TMs) != 2 {
				t.Errorf("%+v", i)
			}
			_ = p.conn.Close()
			w.empty()
			if len(w.server.users.all) != 0 {
				t.Errorf("users are charged with %v", w.server.users.all)
			}
		})
	}
}

// One connection too many of a user is refused in the reply to HELLO.
//
// transport 9.8
func TestConnectionsOfAUser(t *testing.T) {
	w := newWorld(t, mine(Quotas{}, Quotas{Connections: 2}))
	first := w.join()
	w.join()
	p := w.dial()
	p.refused(&protocol.Hello{Lowest: 1, Highest: 1}, syscall.EDQUOT)
	p.cut(syscall.EDQUOT, "connections")
	_ = first.conn.Close()
	eventually(t, "there is room", func() bool { return len(w.server.Clients()) == 1 })
	w.join()
}

// A client without a matching rule receives the reason. The number of such clients before their HELLO is
// limited.
//
// transport-tests P (123)
// transport 9.8
func TestNoRule(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rules = []Rule{{UIDs: []uint32{uint32(os.Geteuid()) + 1}}} })
	p := w.dial()
	p.refused(&protocol.Hello{Lowest: 1, Highest: 1}, syscall.EACCES)
	p.cut(syscall.EACCES, "no rule")
	w.empty()
	for range maxRejected {
		w.dial()
	}
	eventually(t, "all wait", func() bool { return len(w.server.Clients()) == maxRejected })
	if _, _, _, err := w.dial().read(); err == nil {
		t.Error("one too many was answered")
	}
}

// A rule limits where TMs may be started. A dynamic number is one that the rule permits.
//
// transport 9.8
func TestTMNumbersOfARule(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Rules = []Rule{
			{UIDs: []uint32{uint32(os.Geteuid()) + 1}},
			{GIDs: []uint32{uint32(os.Getegid())}, NIDs: []lnet.NID{home}, Portals: Span{34, 35}, TMIDs: Span{7, 8}},
		}
	})
	p := w.join()
	for _, c := range []protocol.TMStart{
		{NID: lnet.LoopbackNID, Portal: 34, TMID: 7}, {NID: home, Portal: 33, TMID: 7}, {NID: home, Portal: 34, TMID: 9},
	} {
		c.PID, c.Completions = lnet.PIDLustre, 2
		p.refused(&c, syscall.EACCES)
	}
	for _, want := range []uint16{8, 7} {
		if r := p.start(35, protocol.DynamicTMID, 2); r.at.TMID != want {
			t.Errorf("started as %d, want %d", r.at.TMID, want)
		}
	}
	if _, err := p.tryStart(35, protocol.DynamicTMID, 2); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("a third one: %v", err)
	}
}

// New rejects invalid rules and times.
func TestBadConfig(t *testing.T) {
	good := newWorld(t, nil).core
	for _, c := range []Config{
		{}, {Core: good, Grace: -1}, {Core: good, Rules: []Rule{{Portals: Span{0, 3}}}},
		{Core: good, Rules: []Rule{{TMIDs: Span{9, 8}}}}, {Core: good, Rules: []Rule{{TMIDs: Span{1, 4096}}}},
	} {
		if _, err := New(c); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A burst may have one second's worth of events. After that they come at the rate. Unused time beyond a
// second is lost.
func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newRateLimit(10)
	for i := range 10 {
		if wait := p.next(now); wait != 0 {
			t.Fatalf("request %d waits %v", i, wait)
		}
	}
	for i := range 3 {
		if wait, want := p.next(now), time.Duration(i+1)*time.Second/10; wait != want {
			t.Errorf("waits %v, want %v", wait, want)
		}
	}
	now = now.Add(time.Hour)
	for range 10 {
		p.next(now)
	}
	if wait := p.next(now); wait != time.Second/10 {
		t.Errorf("waits %v after an hour", wait)
	}
}

// A user may connect in a burst of one second's worth, and then at the rate. Other users are not delayed.
// A connection whose delay would be too long takes no turn and delays no others. Users who have not
// connected for a while are forgotten.
//
// transport 9.8
func TestTurns(t *testing.T) {
	now := time.Unix(1000, 0)
	u := make(userPaces)
	for i := range 10 {
		if wait := u.next(1, 10, now, 0); wait != 0 {
			t.Fatalf("connection %d waits %v", i, wait)
		}
	}
	for range 3 {
		if wait := u.next(1, 10, now, 0); wait != time.Second/10 {
			t.Errorf("waits %v, and may not", wait)
		}
	}
	for i := range 2 {
		if wait, want := u.next(1, 10, now, time.Second), time.Duration(i+1)*time.Second/10; wait != want {
			t.Errorf("waits %v, want %v", wait, want)
		}
	}
	if wait := u.next(2, 10, now, 0); wait != 0 {
		t.Errorf("another user waits %v", wait)
	}
	u.next(3, 10, now.Add(time.Hour), 0)
	if len(u) != 1 {
		t.Errorf("%d users are remembered", len(u))
	}
}

// Connections beyond the rate are accepted, count against the user's quota, and are not answered yet.
// They end with the Server. Connections beyond the quota, too, are closed at once.
//
// transport 9.8
func TestConnectionRate(t *testing.T) {
	const turns, quota = 1, 3
	w := newWorld(t, func(c *Config) {
		mine(Quotas{}, Quotas{Connections: quota})(c)
		c.Connects, c.HelloTime = turns, time.Hour
		c.Rules[0].User.Connections = quota
	})
	w.server.mu.Lock()
	p := newRateLimit(turns)
	p.paidUntil = time.Now().Add(time.Hour) // as if the user had connected very often
	w.server.connectPaces[uint32(os.Geteuid())], w.server.maxConnectDelay = &p, 2*time.Hour
	w.server.mu.Unlock()
	var waiting []*peer
	for range quota {
		waiting = append(waiting, w.dial())
	}
	eventually(t, "all are accepted", func() bool { return len(w.server.Clients()) == quota })
	if _, _, _, err := w.dial().read(); err == nil || isTimeout(err) {
		t.Errorf("one too many: %v", err)
	}
	if n := len(w.server.Clients()); n != quota {
		t.Errorf("%d connections", n)
	}
	if n := w.total("default").Requests; n != 0 {
		t.Errorf("%d requests of those who wait", n)
	}
	_ = waiting[0].conn.Close()
	eventually(t, "one does not wait", func() bool { return len(w.server.Clients()) == quota-1 })
}
