//go:build !race

package c

import (
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport/mem"
)

// valgrind is a variant whose programs fail if they use memory that is not theirs or not initialized, or lose memory.
var valgrind = variant{
	name: "valgrind", compiler: "gcc", flags: []string{"-O1", "-g"},
	under: []string{"valgrind", "--quiet", "--error-exitcode=1", "--leak-check=full"},
}

// Programs that talk with a peer, make mistakes, or have an lnetd that sends damaged bytes, run in Valgrind without
// a complaint. Valgrind has its own limit of open files, so that case is left out.
//
// transport 9.8
func TestValgrind(t *testing.T) {
	testenv.NeedCommand(t, "valgrind", "valgrind")
	t.Run("conversation", func(t *testing.T) {
		core := mem.New(mem.Config{}).Host(home)
		_, path := tmpeer.Serve(t, core)
		p := tmpeer.New(t, core, home)
		valgrind.run(t, conversation, path, p.Address)
		p.Stop()
	})
	for _, mode := range []string{"quota", "busy", "names", "batch", "word"} {
		t.Run(mode, func(t *testing.T) {
			_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
			valgrind.run(t, "testdata/edges.c", mode, path)
		})
	}
	t.Run("hostile", func(t *testing.T) {
		valgrind.run(t, "testdata/hostile.c", "flood")
		valgrind.run(t, "testdata/hostile.c", "random", "50")
	})
}
