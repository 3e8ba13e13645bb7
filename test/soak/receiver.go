package soak

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// receiver receives the peer's PUTs into buffers, which it posts again when they are full, and serves
// the peer's GETs from the pattern. It compares each message with its plan.
type receiver struct {
	node     *node.Node
	from     []lnet.NID // the peer's NIDs, the primary one first
	seed     uint64     // seed of the messages that the peer sends
	pattern  []byte
	record   *arrivedRecord
	findings *findings

	whole  atomic.Uint64 // PUTs that arrived with their complete payload
	broken atomic.Uint64 // PUTs whose payload is incomplete because the connection was lost
	served atomic.Uint64 // GETs for which an answer was sent or attempted
}

// Number and size of the buffers for PUTs. The MD of a buffer is unlinked when the buffer has no room
// for another message of maximum size.
const (
	buffers    = 6
	bufferSize = 4 * maxSize
)

func newReceiver(n *node.Node, from []lnet.NID, seed uint64, pattern []byte, f *findings) *receiver {
	return &receiver{node: n, from: from, seed: seed, pattern: pattern, record: newArrivedRecord(), findings: f}
}

// post posts the buffers for PUTs and the pattern for GETs. The portal for PUTs is lazy: a PUT waits
// while no buffer is posted.
func (r *receiver) post() error {
	if err := r.node.SetLazy(putPortal); err != nil {
		return err
	}
	for range buffers {
		b := &buffer{r: r, bytes: make([]byte, bufferSize)}
		if err := b.post(); err != nil {
			return err
		}
	}
	_, err := r.node.Attach(
		portals.Entry{Portal: getPortal, MatchBits: getBits, IgnoreBits: seqMask},
		portals.MD{Bytes: r.pattern, Threshold: portals.Unlimited, Options: portals.OpGet | portals.ManageRemote, Handler: portals.HandlerFunc(r.handleGet)})
	return err
}

// buffer is a buffer for PUTs, and the handler of its MD.
type buffer struct {
	r     *receiver
	bytes []byte
}

func (b *buffer) post() error {
	_, err := b.r.node.Attach(
		portals.Entry{Portal: putPortal, MatchBits: putBits, IgnoreBits: seqMask, Position: portals.After},
		portals.MD{Bytes: b.bytes, Threshold: portals.Unlimited, Unlink: true, MaxSize: maxSize, Options: portals.OpPut | portals.MaxSize, Handler: b})
	return err
}

// HandleEvent implements portals.Handler.
func (b *buffer) HandleEvent(e *portals.Event) {
	if e.Type != portals.EventPut {
		b.r.findings.add("unexpected %s at the receiver", e.Type)
		return
	}
	b.r.handlePut(e, b.bytes[e.Offset:][:e.Length])
	if e.Unlinked {
		if err := b.post(); err != nil {
			b.r.findings.add("post memory again: %v", err)
		}
	}
}

func (r *receiver) handlePut(e *portals.Event, payload []byte) {
	seq := e.MatchBits & seqMask
	if err := r.record.arrived(seq, e.Err == nil); err != nil {
		r.findings.add("PUT: %v", err)
	}
	r.checkOrigin(e, seq)
	if e.HdrData != seq {
		r.findings.add("message %d: hdr_data %d", seq, e.HdrData)
	}
	p := planOf(r.seed, seq)
	if p.kind == fetch || e.Length != p.size {
		r.findings.add("message %d: a PUT of %d bytes, want a %s of %d", seq, e.Length, p.kind, p.size)
		return
	}
	if e.Err != nil {
		r.broken.Add(1)
		return
	}
	r.whole.Add(1)
	if !bytes.Equal(payload, p.payload(r.pattern)) {
		r.findings.add("message %d: a PUT of %d bytes with the wrong content", seq, e.Length)
	}
}

func (r *receiver) handleGet(e *portals.Event) {
	if e.Type != portals.EventGet {
		r.findings.add("unexpected %s at the source of GETs", e.Type)
		return
	}
	seq := e.MatchBits & seqMask
	r.served.Add(1)
	if err := r.record.arrived(seq, e.Err == nil); err != nil {
		r.findings.add("GET: %v", err)
	}
	r.checkOrigin(e, seq)
	if p := planOf(r.seed, seq); p.kind != fetch || e.Length != p.size || e.Offset != p.offset {
		r.findings.add("message %d: a GET of %d bytes at %d, want a %s of %d at %d", seq, e.Length, e.Offset, p.kind, p.size, p.offset)
	}
}

// checkOrigin checks that the initiator of a message is the peer. It may be any of the peer's NIDs,
// because before discovery the initiator is the NID from which the message came.
func (r *receiver) checkOrigin(e *portals.Event, seq uint64) {
	if !slices.Contains(r.from, e.Initiator.NID) || e.Initiator.PID != lnet.PIDLustre {
		r.findings.add("message %d: from %s, want %s", seq, e.Initiator, r.from[0])
	}
}
