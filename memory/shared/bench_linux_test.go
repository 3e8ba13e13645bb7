package shared

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An entry is sent to another process and one is sent back, compared with a word of shared memory and two
// eventfds, in turns. Either all sides sleep, or all poll. The results are the medians of the turns, and of
// their ratios.
func BenchmarkRoundTrip(b *testing.B) {
	for _, spin := range []bool{false, true} {
		name, suffix := "Sleeping", ""
		if spin {
			name, suffix = "Spinning", " spin"
		}
		b.Run(name, func(b *testing.B) {
			h, files := newHost(b, 64, 64)
			startOther(b, "echo"+suffix, files.Ring, files.Submissions, files.Completions)
			p := newPlain(b, "plain"+suffix, spin)
			const turn = 200
			var n uint32
			var rings, plains, ratios []float64
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				for i := range uint32(turn) {
					if err := roundTrip(h, n+i, spin); err != nil {
						b.Fatal(err)
					}
				}
				middle := time.Now()
				for i := range uint32(turn) {
					p.send(n + i + 1)
					if err := p.receive(n + i + 1); err != nil {
						b.Fatal(err)
					}
				}
				n += turn
				ours, plain := float64(middle.Sub(start)), float64(time.Since(middle))
				rings, plains = append(rings, ours/turn), append(plains, plain/turn)
				ratios = append(ratios, ours/plain)
			}
			for name, v := range map[string][]float64{"ns/rings": rings, "ns/eventfd": plains, "ratio": ratios} {
				slices.Sort(v)
				b.ReportMetric(v[len(v)/2], name)
			}
			b.ReportMetric(0, "ns/op") // of a turn of either kind
		})
	}
}

// newPlain starts function other, the other end of a plain, in a new process, and returns this end.
func newPlain(b *testing.B, other string, spin bool) *plain {
	b.Helper()
	m, fd, err := Create("plain", os.Getpagesize())
	if err != nil {
		b.Fatal(err)
	}
	var fds [4]int // both eventfds, for each process
	for i := 0; i < 4; i += 2 {
		fds[i] = must[int](b)(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
		fds[i+1] = must[int](b)(unix.Dup(fds[i]))
	}
	startOther(b, other, fd, fds[1], fds[3])
	p := &plain{m, 0, 64, bellOf(fds[2]), fds[0], spin}
	b.Cleanup(func() {
		shut(p.ring)
		finish(b, p.bell, m)
	})
	return p
}

// Entries that pass from one end to the other in this process, in batches: the cost of the rings without
// waiting.
func BenchmarkEntries(b *testing.B) {
	for _, batch := range []int{1, 16, 256} {
		h, c := newPair(b, 256, 256)
		b.Run(fmt.Sprint("Submissions", batch), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range batch {
					if ok, err := put(&c.Submissions.Producer, 0); !ok {
						b.Fatal(err)
					}
				}
				c.Submissions.Publish()
				for range batch {
					if _, ok, err := next(&h.Submissions.Consumer); !ok {
						b.Fatal(err)
					}
				}
				h.Submissions.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/entry")
		})
		b.Run(fmt.Sprint("Completions", batch), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range batch {
					if ok, err := put(&h.Completions.Producer, 0); !ok {
						b.Fatal(err)
					}
				}
				h.Completions.Publish()
				for range batch {
					if _, ok, err := next(&c.Completions.Consumer); !ok {
						b.Fatal(err)
					}
				}
				c.Completions.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/entry")
		})
	}
}
