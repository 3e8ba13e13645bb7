package transport

// minRPC is the minimum size of Motr's rpc messages, and the maximum segment size of its rpc buffers, in bytes.
const minRPC = 4096

// RPCSegmentSize returns the length of the segments that an rpc layer should use for its buffers, in bytes:
// l.SegmentSize, but at most 4096 (transport 3.4).
func (l Limits) RPCSegmentSize() int { return min(l.SegmentSize, minRPC) }

// RPCSegments returns the number of segments of RPCSegmentSize bytes in a buffer of maximum size. It may
// exceed l.Segments; a single buffer cannot then consist of such segments alone.
func (l Limits) RPCSegments() int { return l.BufferSize / l.RPCSegmentSize() }

// RPCMessageSize returns the length of the messages that an rpc layer should use, in bytes: want, but at
// least 4096 and at most l.BufferSize. If want is 0, it returns l.BufferSize.
func (l Limits) RPCMessageSize(want int) int {
	if want == 0 {
		return l.BufferSize
	}
	return min(max(want, minRPC), l.BufferSize)
}

// RPCMessages returns the number of messages of size bytes that fit in the largest buffer.
func (l Limits) RPCMessages(size int) int { return l.BufferSize / max(size, 1) }
