package portals_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// ignored returns the k-th mask of ignore bits: 0, 1, 3, 7 and so on, shifted to high bits
// that the entries do not use.
func ignored(k int) uint64 { return (1<<k - 1) << 48 }

// posted returns a table with n entries on portal 1, with different bits and the given
// number of shapes in turn.
func posted(t testing.TB, n, shapes int) *portals.Table {
	t.Helper()
	table := newTable()
	for i := range n {
		attach(t, table, portals.Entry{Portal: 1, MatchBits: uint64(i), IgnoreBits: ignored(i % shapes), Position: portals.After},
			portals.MD{Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote})
	}
	return table
}

// putting returns a function that matches and finishes a PUT to one of n entries, in
// scattered order.
func putting(t testing.TB, table *portals.Table, n int) func() {
	o := newArrival(portals.EventPut, 0, 0)
	next := 0
	return func() {
		next = (next + 7919) % n
		o.Event.MatchBits = uint64(next)
		if table.Match(o) != portals.Accept {
			t.Fatal("no match")
		}
		table.Finish(o, nil)
	}
}

// attaching returns a function that attaches and unlinks an MD among others.
func attaching(t testing.TB, table *portals.Table, e portals.Entry, h portals.Handler) func() {
	room := make([]byte, 64)
	return func() {
		d := portals.MD{Bytes: room, Threshold: 1, Options: portals.OpPut, Handler: h}
		if err := table.Unlink(attach(t, table, e, d)); err != nil {
			t.Fatal(err)
		}
	}
}

// exchanging returns a function that makes a request and takes its response.
func exchanging(t testing.TB, table *portals.Table, h lnet.Handle, b portals.Begin) func() {
	var sent, answer portals.Operation
	return func() {
		if _, err := table.Begin(h, &sent, b); err != nil {
			t.Fatal(err)
		}
		if b.Type == lnet.MsgGet && !table.BeginReply(h, &answer, 0) || b.Type == lnet.MsgPut && !table.BeginAck(h, &answer) {
			t.Fatal("not taken")
		}
		table.Finish(&answer, nil)
		table.Finish(&sent, nil)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var none portals.Handler = portals.HandlerFunc(func(*portals.Event) {})
	for _, c := range []struct {
		name string
		make func() func()
	}{
		{"match", func() func() { return putting(t, posted(t, 1000, 4), 1000) }},
		{"attach and unlink", func() func() {
			return attaching(t, posted(t, 1000, 4), portals.Entry{Portal: 1, MatchBits: 5000}, none)
		}},
		{"attach and unlink on an empty portal", func() func() {
			return attaching(t, newTable(), portals.Entry{Portal: 1, IgnoreBits: 8}, none)
		}},
		{"attach, match, auto unlink", func() func() {
			table := newTable()
			o := newArrival(portals.EventPut, 7, 0)
			return func() {
				attach(t, table, portals.Entry{Portal: 1, MatchBits: 7}, portals.MD{Threshold: 1, Unlink: true, Options: portals.OpPut, Handler: none})
				match(t, table, o, portals.Accept)
				table.Finish(o, nil)
			}
		}},
		{"get", func() func() {
			table := newTable()
			return exchanging(t, table, bind(t, table, portals.MD{Threshold: portals.Unlimited, Handler: none}), tracked(get, 1))
		}},
		{"put with ack", func() func() {
			table := newTable()
			return exchanging(t, table, bind(t, table, portals.MD{Threshold: portals.Unlimited, Handler: none}), tracked(putWithAck, 1))
		}},
		{"bind, get, auto unlink", func() func() {
			table := newTable()
			data := make([]byte, 8)
			return func() {
				exchanging(t, table, bind(t, table, portals.MD{Bytes: data, Threshold: 2, Unlink: true, Handler: none}), tracked(get, 1))()
			}
		}},
		{"handler that makes events", func() func() {
			table := newTable()
			var h lnet.Handle
			var inner portals.Operation
			depth := 0
			h = bind(t, table, portals.MD{Threshold: portals.Unlimited, Handler: portals.HandlerFunc(func(*portals.Event) {
				if depth++; depth%2 == 1 {
					if _, err := table.Begin(h, &inner, putAlone); err != nil {
						t.Fatal(err)
					}
					table.Finish(&inner, nil)
				}
			})})
			var outer portals.Operation
			return func() {
				if _, err := table.Begin(h, &outer, putAlone); err != nil {
					t.Fatal(err)
				}
				table.Finish(&outer, nil)
			}
		}},
		{"delay and drop", func() func() {
			table := newTable()
			if err := table.SetLazy(1); err != nil {
				t.Fatal(err)
			}
			o := newArrival(portals.EventPut, 7, 0)
			return func() {
				match(t, table, o, portals.Delay)
				q := table.DropDelayed(nil)
				if q.Next() != o {
					t.Fatal("lost")
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.make()
			for range 300 { // pools and tables grow to their steady size
				f()
			}
			want := 0.0
			if c.name == "bind, get, auto unlink" {
				want = 2 // two operations and a closure of the test itself
			}
			if got := testing.AllocsPerRun(1000, f); got > want && !testenv.Race {
				t.Errorf("%v allocations per run, want %v", got, want)
			}
		})
	}
}

// BenchmarkMatch measures a PUT to one of ten entries (near), or to all entries in turn
// (far), for several numbers of entries. Near matches cost the same among ten entries and
// among a million. Far matches cost what the processor needs to fetch an MD from memory.
// Both cost more with more masks.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1000, 1_000_000} {
		for _, shapes := range []int{1, 4, 16} {
			table := posted(b, n, shapes)
			for name, among := range map[string]int{"near": 10, "far": n} {
				b.Run(fmt.Sprintf("entries=%d/masks=%d/%s", n, shapes, name), func(b *testing.B) {
					f := putting(b, table, among)
					f()
					b.ReportAllocs()
					for b.Loop() {
						f()
					}
				})
			}
		}
	}
}

func BenchmarkAttachUnlink(b *testing.B) {
	for _, n := range []int{10, 1000, 1_000_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			f := attaching(b, posted(b, n, 1), portals.Entry{Portal: 1, MatchBits: 1 << 40}, nil)
			f()
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// BenchmarkExchange measures a tracked request and its response.
func BenchmarkExchange(b *testing.B) {
	for name, request := range map[string]portals.Begin{"get": get, "put with ack": putWithAck} {
		b.Run(name, func(b *testing.B) {
			table := newTable()
			f := exchanging(b, table, bind(b, table, portals.MD{Threshold: portals.Unlimited}), tracked(request, 1))
			f()
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// BenchmarkMemory measures the memory of a posted entry, including tables.
func BenchmarkMemory(b *testing.B) {
	const n = 200_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		table := posted(b, n, 1)
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(table)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/entry")
	}
}

// BenchmarkFloor is the lower bound for far matches, without any matching. It loads a
// random pointer from a table, and then modifies a record of an MD's size in each cache
// line that a match touches.
func BenchmarkFloor(b *testing.B) {
	const lines, words = 5, 44 // 352 bytes
	for _, bits := range []int{3, 20} {
		b.Run(fmt.Sprintf("entries=%d", 1<<bits), func(b *testing.B) {
			slot := func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 >> (64 - bits) }
			records := make([]*[words]uint64, 1<<bits)
			for i := range records {
				records[i] = new([words]uint64)
			}
			next := uint64(0)
			for b.Loop() {
				next += 7919
				r := records[slot(next)]
				for l := range lines {
					r[8*l] += next >> 63
					next += r[8*l] // adds 0, but the processor has to wait for the value
				}
			}
		})
	}
}
