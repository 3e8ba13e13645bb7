package c

import (
	"testing"

	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport/mem"
)

// A program allocates much memory, and waits, although a timer interrupts it all the time; its children close their copy of
// a connection whatever its threads do; and its connection survives that it has too many open files. Memory that
// a quota forbids is never allocated. Of an operation and lnetd_deregister at the same time, one fails with EBUSY.
// A name that lnetd cannot display is refused. lnetd sees the operations of a batch at its end, or when the program
// waits, or has filled the ring. Threads rarely yield the processor before they sleep while that finds nothing, never for
// longer than they may wait, and not at all if that is disabled.
// lnetd wakes a thread that sleeps on a word in shared memory. A thread reads tokens only if some have arrived.
//
// transport 9.3, 9.6 (1), 9.10
func TestEdges(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		for _, mode := range []string{"signals", "fork", "files", "quota", "busy", "names", "batch", "spin", "word"} {
			t.Run(mode, func(t *testing.T) {
				_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
				v.run(t, "testdata/edges.c", mode, path)
			})
		}
	})
}
