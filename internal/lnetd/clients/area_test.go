package clients

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// Adjacent ranges of one area become one segment, others do not. Each segment is counted
// as a user of the area.
func TestRangesAreMerged(t *testing.T) {
	all := areas{{bytes: make([]byte, 100)}, {bytes: make([]byte, 100)}}
	parts := []protocol.Range{
		{Area: 0, Offset: 10, Length: 10}, {Area: 0, Offset: 20, Length: 10}, {Area: 0, Offset: 30, Length: 5},
		{Area: 1, Offset: 35, Length: 5}, {Area: 0, Offset: 40, Length: 5}, {Area: 0, Offset: 40, Length: 6}, {Area: 0, Offset: 30, Length: 10},
	}
	segments, of, err := all.segments(parts, &protocol.Limits{Segments: 10, SegmentSize: 10, BufferSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	var lengths []int
	for _, s := range segments {
		lengths = append(lengths, len(s))
	}
	if want := []int{25, 5, 5, 6, 10}; !slices.Equal(lengths, want) || len(of) != len(want) {
		t.Errorf("segments of %d bytes, want %d, of %d areas", lengths, want, len(of))
	}
	if &segments[0][0] != &all[0].bytes[10] || cap(segments[0]) != 25 || &segments[1][0] != &all[1].bytes[35] {
		t.Error("a segment is elsewhere")
	}
}
