package lndtest

import (
	"math"
	"os"
	"testing"
)

// descriptors checks that no file descriptor remains open after interfaces were opened, have exchanged
// messages, and were closed.
func descriptors(t *testing.T, h *Harness) {
	before := 0
	for round := range 3 {
		s := newStage(t, h, 2)
		n := s.open(2)
		s.awaitDelivered(n[1], n[0].puts(n[1], 10, 3000)...)
		s.finish()
		s.w.Close()
		files := openFiles(t)
		if round == 0 {
			before = files // includes the files that Go's runtime keeps open
		} else if files != before {
			t.Errorf("%d files are open after round %d, %d before", files, round, before)
		}
	}
}

// descriptorsOfTheWithdrawn checks that the connections of a lost peer keep no file descriptor open, even while
// arrivals from it still wait for their placement. If there is a leak, the number of descriptors grows in each
// round. Go's runtime and the watching of the host open their files only once.
func descriptorsOfTheWithdrawn(t *testing.T, h *Harness) {
	s := newStage(t, h, 2)
	defer s.w.Close()
	defer s.finish()
	const rounds = 4
	var files []int // open in each round
	grown := 0
	for round := range rounds {
		n := s.nodes
		s.restore()
		a := s.park(n[0], n[1], parkable)
		n[0].close()
		s.awaitWithdrawn(a)
		files = append(files, openFiles(t))
		if round > 0 {
			for k := 0; k < 1000 && files[round] > files[round-1]; k++ {
				s.pause(h.Patience / 10_000) // connections of the same peer may still be closing
				files[round] = openFiles(t)
			}
			if files[round] > files[round-1] {
				grown++
			}
		}
		n[1].place()
		s.awaitFailed(a)
	}
	if grown == rounds-1 {
		t.Errorf("%d files are open in successive rounds", files)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// allocations exchanges messages and checks the number of memory allocations per message. Allocations of other
// goroutines, such as those of timers on a busy machine, are counted too, so the best of three runs decides.
func allocations(t *testing.T, h *Harness) {
	for _, size := range []int{0, 500, 5000} {
		s := newStage(t, h, 2)
		const warmUp, measured = 4000, 10_000
		a, b, over := newGame(s, size)
		run := func(length int) {
			if err := play(a, b, over, length); err != nil {
				t.Fatal(err)
			}
		}
		run(warmUp)
		const bound = 0.01
		perMessage := math.Inf(1)
		for k := 0; k < 3 && perMessage >= bound; k++ {
			perMessage = min(perMessage, testing.AllocsPerRun(1, func() { run(measured) })/measured)
		}
		a.close(s)
		b.close(s)
		s.w.Close()
		if perMessage >= bound {
			t.Errorf("%d bytes: %.3f allocations per message", size, perMessage)
		}
	}
}
