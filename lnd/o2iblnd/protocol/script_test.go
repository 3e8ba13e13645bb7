package protocol

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Scripts in testdata: one connection with the ends A and B, step by step. Go test -rewrite updates
// the expected output.
//
//	pair depth=8 version=0x12 gather=2 queue=1024 fragments=256 timeout=50s keepalive=100s established=false
//	immediate END n=100        send n bytes; put and get likewise, pieces=2, fragments=2 or spare=10
//	deliver END [count=1]      the oldest chain of END arrives; all: every one
//	sent END [count=1]         END polls the completion of a chain; all: every one
//	recv END [count=1]         END polls a message; all: every one
//	answer END [pieces=1]      LNet at END answers its first arrival; refuse, refuse errno=12
//	settle                     performs such steps until none remains
//	tick END after=50s         time passes
//	establish END, close END, fail END, abort END, flush END, show
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		t.Log(filepath.Base(path))
		s := &script{t: t}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	t    *testing.T
	a, b *end
	out  strings.Builder
	ids  int
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	s.out.Reset()
	if d.Cmd == "pair" {
		s.pair(d)
	} else {
		s.step(d)
	}
	if s.out.Len() == 0 {
		return "ok\n"
	}
	return s.out.String()
}

func (s *script) value(d *datadriven.TestData, key, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	return otherwise
}

func (s *script) number(d *datadriven.TestData, key string, otherwise int) int {
	n, err := strconv.ParseInt(s.value(d, key, strconv.Itoa(otherwise)), 0, 64)
	if err != nil {
		d.Fatalf(s.t, "%s: %v", key, err)
	}
	return int(n)
}

func (s *script) duration(d *datadriven.TestData, key string) time.Duration {
	v, err := time.ParseDuration(s.value(d, key, "0"))
	if err != nil {
		d.Fatalf(s.t, "%s: %v", key, err)
	}
	return v
}

func (s *script) pair(d *datadriven.TestData) {
	v, depth := Version(s.number(d, "version", int(V2))), s.number(d, "depth", 8)
	o := Options{
		Gather: s.number(d, "gather", 0), SendQueue: s.number(d, "queue", 0),
		Timeout: s.duration(d, "timeout"), Keepalive: s.duration(d, "keepalive"),
		Flow: Flow{ConcurrentSends: s.number(d, "sends", 0)},
	}
	s.a, s.b = newEnd(s.t, "A", o, v, depth), newEnd(s.t, "B", o, v, depth)
	s.a.peer, s.b.peer = s.b, s.a
	for _, e := range []*end{s.a, s.b} {
		e.trace = func(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }
	}
	s1, s2 := sessions(v, depth, s.number(d, "fragments", 256))
	s.a.c.Connect(start)
	s.b.c.Accept()
	s.a.c.Establish(start, s1, &s.a.b)
	s.b.c.session = s2
	if s.value(d, "established", "true") == "true" {
		s.b.c.Establish(start, s2, &s.b.b)
	}
}

func (s *script) step(d *datadriven.TestData) {
	var e *end
	count := 1
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "A":
			e = s.a
		case "B":
			e = s.b
		case "all":
			count = 1 << 20
		}
	}
	if e == nil && d.Cmd != "settle" && d.Cmd != "show" {
		d.Fatalf(s.t, "of which end?")
	}
	count = s.number(d, "count", count)
	n, pieces := s.number(d, "n", 0), s.number(d, "pieces", 1)
	switch d.Cmd {
	case "immediate":
		for range count {
			s.ids++
			e.immediate(s.ids, n)
		}
	case "put":
		s.ids++
		e.put(s.ids, n, pieces)
	case "get":
		s.ids++
		e.get(s.ids, n, s.number(d, "spare", 0), s.number(d, "fragments", 1))
	case "deliver":
		repeat(count, e.deliver)
	case "sent":
		repeat(count, e.pollSend)
	case "recv":
		repeat(count, e.pollRecv)
	case "answer":
		e.answer(0, pieces, false)
	case "refuse":
		e.answer(0, 1, true)
	case "settle":
		settleInOrder(s.a, s.b)
	case "tick":
		e.now = e.now.Add(s.duration(d, "after"))
		e.c.Tick(e.now, &e.b)
		e.carry()
	case "establish":
		e.c.Establish(e.now, *e.c.Session(), &e.b)
		e.carry()
	case "close":
		e.c.Close(CMDisconnected.Failure(), &e.b)
		e.carry()
	case "abort":
		e.c.Close(&Failure{Health: LocalAborted, Errno: syscall.ECONNABORTED}, &e.b)
		e.carry()
	case "fail":
		e.c.Failed(e.wire[0].slot, nil, &e.b)
		e.carry()
	case "flush":
		e.flush()
	case "show":
		for _, e := range []*end{s.a, s.b} {
			fmt.Fprintf(&s.out, "%s: %v, %d buffers\n", e.name, e.c, len(e.posted))
		}
	default:
		d.Fatalf(s.t, "unknown")
	}
}

func repeat(count int, f func() bool) {
	for count > 0 && f() {
		count--
	}
}

// settleInOrder performs steps until no step is possible, always in the same order.
func settleInOrder(a, b *end) {
	for again := true; again; {
		again = false
		for _, e := range []*end{a, b} {
			again = e.deliver() || again
			again = e.peer.pollRecv() || again
			again = e.pollSend() || again
			if len(e.waiting) > 0 {
				e.answer(0, 1, false)
				again = true
			}
		}
	}
}
