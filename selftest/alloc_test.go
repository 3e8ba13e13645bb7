//go:build !race

// The race detector makes pools discard objects, so allocations cannot be counted.

package selftest

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given a node that tests itself through 0@lo, when it makes thousands of RPCs, then the number of
// allocations does not depend on the number of RPCs.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for name, change := range map[string]func(q *message.TestRequest){
		"ping":  func(*message.TestRequest) {},
		"read":  func(q *message.TestRequest) { brw(q, message.BRWRead, 4096, message.CheckFull) },
		"write": func(q *message.TestRequest) { brw(q, message.BRWWrite, 4096, message.CheckFull) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				p := s.player("one", "10.0.0.1").agent(Config{Logger: slog.New(slog.DiscardHandler)})
				self := *p
				self.id.NID = lnet.LoopbackNID
				con := p.console(1)
				q := con.test(1)
				change(q)
				q.Loop = 10000
				con.prepare(&self, &self, 1, q)
				if status := con.add(&self, q, &self); status != message.OK {
					t.Fatal(status)
				}
				var before, after runtime.MemStats
				for range 2 { // once to warm up
					runtime.ReadMemStats(&before)
					con.run(&self, 1)
					con.idle(&self, 1)
					runtime.ReadMemStats(&after)
				}
				if n := after.Mallocs - before.Mallocs; n > 2000 {
					t.Errorf("%d allocations for 20000 RPCs", n)
				}
			})
		})
	}
}
