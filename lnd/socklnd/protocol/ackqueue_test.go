package protocol

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drain removes all NOOPs from q and returns them as (c0, c1).
func drain(q *AckQueue) [][2]uint64 {
	var out [][2]uint64
	for {
		f, ok := q.Next()
		if !ok {
			return out
		}
		out = append(out, [2]uint64{f.Request, f.Ack})
	}
}

// socklnd 10.4 (3)
func TestAckQueueMerges(t *testing.T) {
	tests := []struct {
		name   string
		single bool
		add    []uint64
		want   [][2]uint64
	}{
		{"nothing", false, nil, nil},
		{"no request", false, []uint64{0}, nil},
		{"one", false, []uint64{2}, [][2]uint64{{0, 2}}},
		{"keepalive", false, []uint64{1}, [][2]uint64{{0, 1}}},
		{"two keepalives", false, []uint64{1, 1}, [][2]uint64{{0, 1}}},
		{"keepalive behind an acknowledgement", false, []uint64{5, 1}, [][2]uint64{{0, 5}}},
		{"acknowledgement replaces a keepalive", false, []uint64{1, 5}, [][2]uint64{{0, 5}}},
		{"two neighbours", false, []uint64{5, 6}, [][2]uint64{{6, 5}}},
		{"two neighbours, falling", false, []uint64{6, 5}, [][2]uint64{{6, 5}}},
		{"two with a gap", false, []uint64{5, 7}, [][2]uint64{{7, 5}}},
		{"two far apart", false, []uint64{5, 9}, [][2]uint64{{9, 5}}},
		{"two far apart take no third", false, []uint64{5, 9, 6}, [][2]uint64{{9, 5}, {0, 6}}},
		{"the gap is filled", false, []uint64{5, 7, 6}, [][2]uint64{{5, 7}}},
		{"a gap takes no outsider", false, []uint64{5, 7, 8}, [][2]uint64{{7, 5}, {0, 8}}},
		{"three rising", false, []uint64{5, 6, 7}, [][2]uint64{{5, 7}}},
		{"three, the lowest last", false, []uint64{6, 7, 5}, [][2]uint64{{5, 7}}},
		{"neighbours take no stranger", false, []uint64{5, 6, 9}, [][2]uint64{{6, 5}, {0, 9}}},
		{"a range grows at both ends", false, []uint64{5, 6, 7, 8, 4}, [][2]uint64{{4, 8}}},
		{"a range takes no stranger", false, []uint64{5, 6, 7, 9}, [][2]uint64{{5, 7}, {0, 9}}},
		{"only the last NOOP grows", false, []uint64{5, 6, 7, 20, 8}, [][2]uint64{{5, 7}, {20, 8}}},
		{"duplicates", false, []uint64{5, 5, 6, 5, 6, 7, 6}, [][2]uint64{{5, 7}}},
		{"duplicate in a closed pair", false, []uint64{5, 9, 9}, [][2]uint64{{9, 5}}},
		{"the lowest cookie", false, []uint64{3, 2, 1}, [][2]uint64{{3, 2}}},
		{"the highest cookie", false, []uint64{1<<64 - 2, 1<<64 - 1, 2}, [][2]uint64{{1<<64 - 1, 1<<64 - 2}, {0, 2}}},
		{"V2 merges nothing", true, []uint64{5, 6, 7}, [][2]uint64{{0, 5}, {0, 6}, {0, 7}}},
		{"V2 has no keepalive", true, []uint64{1}, nil},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			q := AckQueue{Single: c.single}
			for _, k := range c.add {
				q.Add(k)
			}
			if q.Len() != len(c.want) {
				t.Errorf("Len() = %d, want %d", q.Len(), len(c.want))
			}
			if diff := cmp.Diff(c.want, drain(&q)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// socklnd 10.4 (2)
func TestAckQueuePiggyback(t *testing.T) {
	tests := []struct {
		name string
		add  []uint64
		ride []uint64 // cookies in the order in which they are removed
		rest [][2]uint64
	}{
		{"nothing waits", nil, nil, nil},
		{"a keepalive cannot ride", []uint64{1}, nil, [][2]uint64{{0, 1}}},
		{"one", []uint64{5}, []uint64{5}, nil},
		{"one of two", []uint64{5, 9}, []uint64{5}, [][2]uint64{{0, 9}}},
		{"both of two", []uint64{5, 9}, []uint64{5, 9}, nil},
		{"one of a range", []uint64{5, 6, 7}, []uint64{5}, [][2]uint64{{6, 7}}},
		{"two of a range", []uint64{5, 6, 7}, []uint64{5, 6}, [][2]uint64{{0, 7}}},
		{"all of a range", []uint64{5, 6, 7}, []uint64{5, 6, 7}, nil},
		{"from the first NOOP", []uint64{5, 9, 20}, []uint64{5}, [][2]uint64{{0, 9}, {0, 20}}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			var q AckQueue
			for _, k := range c.add {
				q.Add(k)
			}
			for _, want := range c.ride {
				if k, ok := q.TakePiggyback(); !ok || k != want {
					t.Errorf("took %d, %v, want %d", k, ok, want)
				}
			}
			if len(c.ride) == 0 {
				if k, ok := q.TakePiggyback(); ok {
					t.Errorf("took %d", k)
				}
			}
			if diff := cmp.Diff(c.rest, drain(&q)); diff != "" {
				t.Errorf("rest (-want +got):\n%s", diff)
			}
		})
	}
}

// In whatever order cookies are added, merged, sent and piggybacked, the peer decodes each cookie
// exactly once, and nothing else.
func TestAckQueueAcknowledgesEachCookieOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		single := rapid.Bool().Draw(t, "V2")
		version := V3
		if single {
			version = V2
		}
		q := AckQueue{Single: single}
		outstanding := map[uint64]bool{} // requests for which the peer waits
		base := rapid.SampledFrom([]uint64{FirstCookie, 1000, 1<<64 - 24}).Draw(t, "base")
		fresh := map[uint64]bool{} // cookies not used yet
		for k := range uint64(24) {
			fresh[base+k] = true
		}

		acknowledge := func(f Frame) {
			set, err := Acknowledged(f, version)
			if err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			if set.Len() > uint64(len(outstanding)) {
				t.Fatalf("%+v acknowledges %d of %d", f, set.Len(), len(outstanding))
			}
			for k := range set.All() {
				if !outstanding[k] {
					t.Fatalf("%+v acknowledges %d, which is not outstanding", f, k)
				}
				delete(outstanding, k)
			}
		}

		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if len(fresh) == 0 {
					t.Skip("all cookies are used")
				}
				ks := make([]uint64, 0, len(fresh))
				for k := range fresh {
					ks = append(ks, k)
				}
				slices.Sort(ks)
				k := rapid.SampledFrom(ks).Draw(t, "cookie")
				delete(fresh, k)
				outstanding[k] = true
				q.Add(k)
			},
			"keepalive": func(*rapid.T) { q.Add(KeepaliveCookie) },
			"send": func(*rapid.T) {
				if f, ok := q.Next(); ok {
					acknowledge(f)
				}
			},
			"piggyback": func(*rapid.T) {
				if k, ok := q.TakePiggyback(); ok {
					acknowledge(Frame{Type: FrameLNet, Request: 77, Ack: k})
				}
			},
			"": func(t *rapid.T) {
				if q.Len() > len(outstanding)+1 {
					t.Fatalf("%d NOOPs for %d cookies", q.Len(), len(outstanding))
				}
			},
		})

		for {
			f, ok := q.Next()
			if !ok {
				break
			}
			acknowledge(f)
		}
		if len(outstanding) > 0 {
			t.Fatalf("never acknowledged: %v", outstanding)
		}
	})
}

func TestAckQueueAllocatesNothingInASteadyState(t *testing.T) {
	var q AckQueue
	k := FirstCookie
	step := func() {
		for range 10 {
			q.Add(k)
			k += 5 // too far apart for a range
		}
		for q.Len() > 2 {
			q.Next()
		}
	}
	step()
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
