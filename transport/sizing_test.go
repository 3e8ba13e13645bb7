package transport

import "testing"

// The sizes that an RPC layer uses follow from the limits of the domain.
//
// transport 3.4 (2)
func TestSizesOfAnRPCLayer(t *testing.T) {
	lnet := Limits{BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256}
	memory := Limits{BufferSize: 1 << 22, SegmentSize: 1 << 18, Segments: 16}
	odd := Limits{BufferSize: 10_000, SegmentSize: 3000, Segments: 4}
	small := Limits{BufferSize: 1000, SegmentSize: 1000, Segments: 1}
	for _, tt := range []struct {
		name      string
		got, want int
	}{
		{"segments of lnet", lnet.RPCSegmentSize(), 4096},
		{"segments of more than a page", memory.RPCSegmentSize(), 4096},
		{"segments of less than a page", odd.RPCSegmentSize(), 3000},
		{"segments in a buffer of lnet", lnet.RPCSegments(), 256},
		{"more than the domain takes", memory.RPCSegments(), 1024},
		{"segments that do not fill a buffer", odd.RPCSegments(), 3},
		{"messages of any size", lnet.RPCMessageSize(0), 1 << 20},
		{"too short messages", lnet.RPCMessageSize(1), 4096},
		{"the shortest messages", lnet.RPCMessageSize(4096), 4096},
		{"messages", lnet.RPCMessageSize(5000), 5000},
		{"the longest messages", lnet.RPCMessageSize(1 << 20), 1 << 20},
		{"too long messages", lnet.RPCMessageSize(1<<20 + 1), 1 << 20},
		{"messages that want more than there is", small.RPCMessageSize(1), 1000},
		{"messages in a buffer", lnet.RPCMessages(4096), 256},
		{"messages that do not fill a buffer", lnet.RPCMessages(5000), 209},
		{"one message", lnet.RPCMessages(1 << 20), 1},
		{"a message that does not fit", lnet.RPCMessages(1<<20 + 1), 0},
		{"messages of no size", lnet.RPCMessages(0), 1 << 20},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, tt.got, tt.want)
		}
	}
}
