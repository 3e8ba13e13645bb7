package transport

// minRPC is the smallest rpc message that Motr reckons with, and its longest rpc segment, in
// bytes.
const minRPC = 4096

// RPCSegmentSize is how long the segments of an rpc layer's buffers are, in bytes: those of the
// limits, 4096 at most (transport 3.4).
func (l Limits) RPCSegmentSize() int { return min(l.SegmentSize, minRPC) }

// RPCSegments is how many of them make up the largest buffer: more than l.Segments, and so
// than one buffer can have, where longer segments are needed to fill it.
func (l Limits) RPCSegments() int { return l.BufferSize / l.RPCSegmentSize() }

// RPCMessageSize is how long messages of an rpc layer can be, in bytes, that wants so much: no
// less than 4096, no more than a buffer; 0 asks for a buffer.
func (l Limits) RPCMessageSize(want int) int {
	if want == 0 {
		return l.BufferSize
	}
	return min(max(want, minRPC), l.BufferSize)
}

// RPCMessages is how many messages of size bytes, at least 1, fit the largest buffer.
func (l Limits) RPCMessages(size int) int { return l.BufferSize / max(size, 1) }
