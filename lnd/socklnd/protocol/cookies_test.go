package protocol

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// socklnd 10.3 (1)-(2)
func TestAcknowledged(t *testing.T) {
	tests := []struct {
		name    string
		version Version
		frame   Frame
		want    []uint64
	}{
		{"LNET, nothing", V3, Frame{FrameLNet, 0, 0, 0}, nil},
		{"LNET, a request only", V3, Frame{FrameLNet, 0, 7, 0}, nil},
		{"LNET, piggybacked", V3, Frame{FrameLNet, 0, 0, 9}, []uint64{9}},
		{"LNET, piggybacked beside a larger request", V3, Frame{FrameLNet, 0, 12, 9}, []uint64{9}},
		{"LNET, piggybacked beside a smaller request", V4, Frame{FrameLNet, 0, 2, 9}, []uint64{9}},
		{"NOOP, pure", V3, Frame{FrameNoop, 0, 0, 0}, nil},
		{"NOOP, c0 alone means nothing", V3, Frame{FrameNoop, 0, 5, 0}, nil},
		{"NOOP, keepalive", V3, Frame{FrameNoop, 0, 0, 1}, nil},
		{"NOOP, one", V3, Frame{FrameNoop, 0, 0, 2}, []uint64{2}},
		{"NOOP, two", V3, Frame{FrameNoop, 0, 7, 5}, []uint64{5, 7}},
		{"NOOP, two far apart", V4, Frame{FrameNoop, 0, math.MaxUint64, 2}, []uint64{2, math.MaxUint64}},
		{"NOOP, range", V3, Frame{FrameNoop, 0, 5, 9}, []uint64{5, 6, 7, 8, 9}},
		{"NOOP, range of one", V3, Frame{FrameNoop, 0, 5, 5}, []uint64{5}},
		{"NOOP, range to the last cookie", V3, Frame{FrameNoop, 0, math.MaxUint64 - 1, math.MaxUint64},
			[]uint64{math.MaxUint64 - 1, math.MaxUint64}},
		{"V2 LNET, piggybacked", V2, Frame{FrameLNet, 0, 0, 9}, []uint64{9}},
		{"V2 NOOP, one", V2, Frame{FrameNoop, 0x757e3d7d, 0, 2}, []uint64{2}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			set, err := Acknowledged(c.frame, c.version)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Collect(set.All())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if set.Len() != uint64(len(c.want)) {
				t.Errorf("Len() = %d, want %d", set.Len(), len(c.want))
			}
			for k := uint64(0); k < 16; k++ {
				if set.Contains(k) != slices.Contains(c.want, k) {
					t.Errorf("Contains(%d) = %v", k, set.Contains(k))
				}
			}
		})
	}
}

// socklnd 10.3 (3)
func TestAcknowledgedRejects(t *testing.T) {
	tests := []struct {
		name    string
		version Version
		frame   Frame
	}{
		{"keepalive cookie in a pair", V3, Frame{FrameNoop, 0, 7, 1}},
		{"keepalive cookie in a range", V3, Frame{FrameNoop, 0, 1, 1}},
		{"pair in V2", V2, Frame{FrameNoop, 0, 7, 5}},
		{"range in V2", V2, Frame{FrameNoop, 0, 5, 7}},
		{"any in V1", V1, Frame{FrameNoop, 0, 0, 2}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			set, err := Acknowledged(c.frame, c.version)
			var field *lnet.FieldError
			if !errors.As(err, &field) || field.Field != "zc_cookies" {
				t.Errorf("error %v", err)
			}
			if set.Len() != 0 {
				t.Errorf("acknowledges %d", set.Len())
			}
		})
	}
}

// Len returns the size of a range as wide as the counter without iterating over it.
func TestAcknowledgedHugeRange(t *testing.T) {
	set, err := Acknowledged(Frame{Type: FrameNoop, Request: 2, Ack: math.MaxUint64}, V3)
	if err != nil {
		t.Fatal(err)
	}
	if set.Len() != math.MaxUint64-1 || !set.Contains(1<<40) || set.Contains(1) {
		t.Errorf("Len() = %d", set.Len())
	}
	for k := range set.All() {
		if k != 2 {
			t.Errorf("starts with %d", k)
		}
		break
	}
}
