package transport

// minRPC is the smallest rpc message size of Motr, and its largest rpc segment size, in bytes.
const minRPC = 4096

// RPCSegmentSize returns the segment length of an rpc layer's buffers in bytes: l.SegmentSize, but at most
// 4096 (transport 3.4).
func (l Limits) RPCSegmentSize() int { return min(l.SegmentSize, minRPC) }

// RPCSegments returns the number of such segments in the largest buffer. It exceeds l.Segments, and so the
// limit of one buffer, if longer segments are needed to fill the buffer.
func (l Limits) RPCSegments() int { return l.BufferSize / l.RPCSegmentSize() }

// RPCMessageSize returns the length of an rpc layer's messages in bytes, given the desired length. The
// result is at least 4096, and at most the size of a buffer. A desired length of 0 means the size of a
// buffer.
func (l Limits) RPCMessageSize(want int) int {
	if want == 0 {
		return l.BufferSize
	}
	return min(max(want, minRPC), l.BufferSize)
}

// RPCMessages returns the number of messages of size bytes that fit in the largest buffer.
func (l Limits) RPCMessages(size int) int { return l.BufferSize / max(size, 1) }
