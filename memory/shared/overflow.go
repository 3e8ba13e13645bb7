package shared

import "sync/atomic"

// CQ overflow is a flag by which lnetd tells the client that it keeps completions for which the ring had no
// room (transport 9.5). lnetd stores the flag, then loads CQ head again. The client stores CQ head, then loads
// the flag. So either lnetd sees the room, or the client sees the flag and wakes lnetd; see fences in
// bell_linux.go.

// CompletionProducer is lnetd's side of the completion ring.
type CompletionProducer struct {
	Producer
	overflow *atomic.Uint32
}

// MarkOverflow requests the client to wake lnetd when it has read completions. The caller must call Room after
// it, because the client may have read some before. Only the goroutine that may call Room may call it.
func (p *CompletionProducer) MarkOverflow() {
	if p.overflow.Load() == 0 {
		p.overflow.Swap(1)
	}
}

// OverflowMarked reports whether the client has not reacted yet to MarkOverflow. It is safe for concurrent
// use.
func (p *CompletionProducer) OverflowMarked() bool { return p.overflow.Load() != 0 }

// CompletionConsumer is a client's side of the completion ring.
type CompletionConsumer struct {
	Consumer
	overflow *atomic.Uint32
}

// ReleaseAndClaim is like Release. It reports whether the caller must wake lnetd by
// SubmissionProducer.ClaimAnyway, because lnetd keeps completions for which the ring had no room. It costs one
// load more than Release if lnetd keeps none.
func (c *CompletionConsumer) ReleaseAndClaim() (wake bool) {
	c.Release()
	return c.overflow.Load() != 0 && c.overflow.Swap(0) != 0
}
