package c

import (
	"testing"

	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport/mem"
)

// A program allocates much memory although a timer interrupts it all the time; its children close their copy of
// a connection whatever its threads do; and its connection survives that it has too many open files. Memory that
// a quota forbids is never allocated. Of an operation and lnetd_deregister at the same time, one fails with EBUSY.
// A name that lnetd cannot display is refused.
//
// transport 9.3, 9.10
func TestEdges(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		for _, mode := range []string{"signals", "fork", "files", "quota", "busy", "names"} {
			t.Run(mode, func(t *testing.T) {
				_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
				v.run(t, "testdata/edges.c", mode, path)
			})
		}
	})
}
