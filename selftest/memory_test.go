package selftest

import (
	"log/slog"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// borrower is a user of memory with at most one buffer.
type borrower struct {
	waiter memoryWaiter
	peer   lnet.NID
	bytes  []byte // nil: no buffer
}

// memoryOf returns memory with the given limit that is shared fairly and calls granted in the same goroutine.
func memoryOf(limit int) *memory {
	m := newMemory(limit, func(f func()) { f() })
	m.fair = true
	return m
}

func peerOf(n int) lnet.NID { return lnet.NIDFromNumber(tcp, uint32(n)) }

// borrower returns a new borrower that wants n bytes.
func (m *memory) borrower(peer lnet.NID, n int) *borrower {
	x := &borrower{peer: peer}
	x.waiter.granted = func(b []byte) { x.bytes = b }
	x.bytes = m.take(&x.waiter, peer, n)
	return x
}

// Given a peer that takes all memory that it can get, when other peers come, then some memory is left for
// each of them. A peer without memory is served before peers that want more, and before later peers that want
// less.
func TestMemoryLeavesSomethingForOthers(t *testing.T) {
	const mib = 1 << 20
	m := memoryOf(8 * mib)
	var greedy []*borrower
	for range 100 {
		greedy = append(greedy, m.borrower(peerOf(1), mib))
	}
	if m.used != 4*mib || m.waiting.Len() != 1 {
		t.Errorf("one peer has %d bytes, %d peers wait", m.used, m.waiting.Len())
	}
	var others []*borrower
	for n, size := range []int{mib, mib, mib, mib / 2} {
		x := m.borrower(peerOf(2+n), size)
		if x.bytes == nil {
			t.Fatalf("another peer has got nothing with %d bytes in use", m.used)
		}
		others = append(others, x)
	}
	large := m.borrower(peerOf(8), mib)
	small := m.borrower(peerOf(9), 1)
	if large.bytes != nil || small.bytes != nil || m.waiting.Len() != 3 {
		t.Errorf("%d bytes in use, %d peers wait", m.used, m.waiting.Len())
	}
	m.put(&others[0].waiter, others[0].bytes)
	if large.bytes == nil || small.bytes == nil || m.waiting.Len() != 1 {
		t.Errorf("the large one has %d bytes, the small one %d, %d peers wait", len(large.bytes), len(small.bytes), m.waiting.Len())
	}
	for _, x := range append([]*borrower{large, small}, others[1:]...) {
		m.put(&x.waiter, x.bytes)
	}
	for k, x := range greedy {
		if x.bytes == nil {
			t.Fatalf("wish %d of the greedy one is not granted", k)
		}
		m.put(&x.waiter, x.bytes)
	}
	if m.used != 0 || m.waiting.Len() != 0 {
		t.Errorf("%d bytes in use, %d peers wait", m.used, m.waiting.Len())
	}
}

// Given a waiter behind one that wants too much memory, when the first one cancels, then the second one is
// served immediately.
func TestMemoryForgetsWaiters(t *testing.T) {
	m := memoryOf(1 << 20)
	first := m.borrower(peerOf(1), 4096)
	much, little := m.borrower(peerOf(2), 1<<20), m.borrower(peerOf(3), 4096)
	if little.bytes != nil {
		t.Error("the second in the queue was served first")
	}
	if !m.dequeue(&much.waiter) || m.dequeue(&much.waiter) || m.dequeue(&first.waiter) {
		t.Error("forget is wrong about who waits")
	}
	if little.bytes == nil || m.waiting.Len() != 0 {
		t.Errorf("%d peers wait", m.waiting.Len())
	}
}

// Given users that take, release, lose and cancel in any order, then the limit holds, a peer with memory
// does not grow beyond what was free, and no user waits forever.
func TestMemoryServesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1<<20, 4<<20).Draw(t, "limit")
		m := memoryOf(limit)
		m.fair = rapid.Bool().Draw(t, "fair")
		var all []*borrower
		pick := func(has bool) *borrower {
			var list []*borrower
			for _, x := range all {
				if has == (x.bytes != nil) && has != x.waiter.links.In() {
					list = append(list, x)
				}
			}
			if len(list) == 0 {
				return nil
			}
			return list[rapid.IntRange(0, len(list)-1).Draw(t, "whose")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := 1 << rapid.IntRange(0, 20).Draw(t, "size")
				all = append(all, m.borrower(peerOf(rapid.IntRange(1, 4).Draw(t, "peer")), n))
			},
			"put": func(*rapid.T) {
				if x := pick(true); x != nil {
					b := x.bytes
					x.bytes = nil
					m.put(&x.waiter, b)
				}
			},
			"lose": func(*rapid.T) {
				if x := pick(true); x != nil {
					b := x.bytes
					x.bytes = nil
					m.markLost(&x.waiter, b)
				}
			},
			"forget": func(t *rapid.T) {
				if x := pick(false); x != nil && !m.dequeue(&x.waiter) {
					t.Error("not forgotten")
				}
			},
			"": func(t *rapid.T) {
				held, buffers := map[lnet.NID]int{}, map[lnet.NID]int{}
				used := 0
				for _, x := range all {
					held[x.peer] += cap(x.bytes)
					used += cap(x.bytes)
					if x.bytes != nil {
						buffers[x.peer]++
					}
				}
				if used != m.used || used > limit {
					t.Fatalf("%d bytes are lent, %d counted, %d is the limit", used, m.used, limit)
				}
				for peer, n := range held {
					if m.fair && buffers[peer] > 1 && n > (limit+message.MaxBulk)/2 {
						t.Errorf("%v has %d of %d bytes", peer, n, limit)
					}
				}
			},
		})
		for busy := true; busy; {
			busy = false
			for _, x := range all {
				if b := x.bytes; b != nil {
					busy, x.bytes = true, nil
					m.put(&x.waiter, b)
				}
			}
		}
		if m.used != 0 || m.waiting.Len() != 0 {
			t.Errorf("all has been given back: %d bytes in use, %d peers wait", m.used, m.waiting.Len())
		}
		m.trimIdle()
		if len(m.claims) != 0 || m.kept != 0 {
			t.Errorf("%d peers are known, %d bytes kept", len(m.claims), m.kept)
		}
	})
}

// Given a sequence of new peers, when they have released their memory, then their claims are deleted.
func TestMemoryForgetsPeers(t *testing.T) {
	m := memoryOf(2 << 20)
	kept := m.borrower(peerOf(0), 1)
	for n := range 3 * maxClaims {
		x := m.borrower(peerOf(1+n), 1)
		m.put(&x.waiter, x.bytes)
	}
	if n := len(m.claims); n > maxClaims || m.claims[kept.peer] == nil {
		t.Errorf("%d peers are known", n)
	}
}

// Given a client that writes more bulks than fit into the server's memory and provides no data, when another
// client writes, then the other client is served immediately.
func TestMemoryHeldByAClientThatIsDead(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, con := s.serving(Config{ServerMemory: 2 << 20})
		x := s.stranger(server, nil, 0)
		for range 16 { // each times out after 50 s
			q := message.BRWRequest{
				Header: con.header(), ReplyID: strangeReply + 1, BulkID: strangeBulk,
				Op: message.BRWWrite, Length: 1 << 20, Check: message.CheckNone,
			}
			x.send(server, message.TestPortal, uint64(message.ServiceBRW), q.Append(nil))
		}
		client := s.player("client", "10.0.0.5").agent(Config{})
		own := client.console(2)
		own.make(client, false)
		q := brw(own.test(1), message.BRWWrite, 4096, message.CheckFull)
		q.Loop = 10
		if status := own.add(client, q, server); status != message.OK {
			t.Fatal(status)
		}
		own.run(client, 1)
		own.idle(client, 1)
		if r := own.stat(client); r.Framework.BRWErrors != 0 || r.Framework.RunningMS > 2000 {
			t.Errorf("%+v", r.Framework)
		}
		if h, _ := client.Latency(1, 1); h.Count() != 10 {
			t.Errorf("%d RPCs", h.Count())
		}
		con.remove(server)
	})
}

// Given thousands of units, when they have run, then each needs only its own state, because the recorders
// are shared.
func TestUnitsAreSmall(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		quiet := Config{Logger: slog.New(slog.DiscardHandler)}
		client := s.player("client", "10.0.0.1").agent(quiet)
		server := s.player("server", "10.0.0.2").agent(quiet)
		con := client.console(1)
		con.make(server, false)
		if status := con.add(server, con.test(1)); status != message.OK {
			t.Fatal(status)
		}
		const units = 4096
		heap := func() int64 {
			runtime.GC()
			runtime.GC() // the first one leaves objects in pools
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		con.make(client, false)
		before := heap()
		for range units / message.MaxConcurrency {
			q := con.test(1)
			q.Concurrency, q.Loop = message.MaxConcurrency, 1
			if status := con.add(client, q, server); status != message.OK {
				t.Fatal(status)
			}
		}
		con.run(client, 1)
		con.idle(client, 1)
		if h, _ := client.Latency(1, 1); h.Count() != message.MaxConcurrency {
			t.Errorf("%d RPCs", h.Count())
		}
		if n := (heap() - before) / units; n > 2000 { // typically half of it
			t.Errorf("%d bytes per unit", n)
		}
	})
}
