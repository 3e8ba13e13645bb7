package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// DropReason says why a message ended here and no event tells of it, or is of no
// use: one that arrived and was not taken, one that was not forwarded, an answer
// that did not leave.
type DropReason uint8

// Every message that is dropped counts under one of these.
const (
	DropNoMatch       DropReason = iota // no entry takes the request
	DropNoPortal                        // it is for a portal that does not exist
	DropTooLong                         // it is longer than what would take it, or than LNet carries
	DropNoMD                            // an ACK or REPLY for an MD that is not there any more
	DropUsedUp                          // an ACK or REPLY for an MD that has no operations left
	DropUnasked                         // an ACK or REPLY that nobody asked for
	DropHandlerBehind                   // the handler of the MD is too far behind
	DropPortalFull                      // too many wait on the lazy portal
	DropAnswersFull                     // too many answers wait for the neighbour that asks
	DropNotRouter                       // it is for another node, and this one does not forward
	DropNoRoute                         // it is for a net that no route leads to
	DropAbsent                          // it is for another node, which was not reached a moment ago
	DropPeerBound                       // it is from or for a NID that is not known, and there is room for no more
	DropHopDown                         // it is for another node, whose next hop does not answer
	DropAsymmetric                      // it came through a router that no route back leads through
	DropOtherNI                         // it is for this node, and came to another of its NIs
	DropMisdirected                     // it should not have come this way
	DropMalformed                       // its header, its source or its content makes no sense
	DropUnknownPeer                     // a push from a NID that no peer has
	DropFaultRule                       // a fault rule wants it
	DropOverdue                         // it waited for credits until it was too late
	DropNotSent                         // an answer, or a message for another node, failed to leave
	DropConnection                      // its connection ended before its payload was there
	DropClosing                         // the node or the NI is closing
	DropReasons       = iota            // how many reasons there are
)

var dropNames = [DropReasons]string{
	"no_match", "no_portal", "too_long", "no_md", "used_up", "unasked", "handler_behind", "portal_full", "answers_full",
	"not_router", "no_route", "absent", "peer_bound", "hop_down", "asymmetric_route", "other_ni", "misdirected", "malformed", "unknown_peer",
	"fault_rule", "overdue", "not_sent", "connection_lost", "closing",
}

// String is the name by which commands and metrics know the reason, lower_case
// and stable.
func (r DropReason) String() string { return dropNames[r] }

// DropCounts are numbers of messages by why they were dropped.
type DropCounts [DropReasons]uint64

// Total is the sum over all reasons.
func (c *DropCounts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// dropTally is the live form of DropCounts.
type dropTally [DropReasons]atomic.Uint64

// Drops tells how many messages were dropped for which reason. Beside those in
// Counters.Dropped, which counts as kernels do, they are answers that could not be
// sent, and messages that cost their sender its connection.
func (n *Node) Drops() (c DropCounts) {
	n.made()
	for r := range c {
		c[r] = n.stats.drops[r].Load()
	}
	return c
}

// Refusals tells how many callers the node's NIs have turned away, by reason, those
// that are gone included.
func (n *Node) Refusals() lnd.RefusalCounts {
	n.made().infoMu.Lock()
	defer n.infoMu.Unlock()
	c := n.refusals()
	for r := range c {
		c[r] = less(c[r], n.refusalsBefore[r])
	}
	return c
}

// refusals are those since the node's start. n.infoMu is held.
func (n *Node) refusals() lnd.RefusalCounts {
	c := n.retiredRefusals
	for _, i := range slices.Concat(n.topology.Load().nis, n.leaving) {
		of := i.iface.Refusals()
		for r := range c {
			c[r] += of[r]
		}
	}
	return c
}

// dropped counts a message that ends here, and tells of it at debug. i is the NI
// and p the neighbour that it came from or would have left by, both nil if there
// was none.
func (n *Node) dropped(r DropReason, i *ni, p *peerNI, h *lnet.Header) {
	n.stats.drops[r].Add(1)
	if n.log.Enabled(context.Background(), slog.LevelDebug) {
		n.tellDrop(r, i, p, h)
	}
}

func (n *Node) tellDrop(r DropReason, i *ni, p *peerNI, h *lnet.Header) {
	attributes := []slog.Attr{
		slog.String("reason", r.String()), slog.String("type", h.Type.String()),
		slog.Any("source", h.Src), slog.Any("dest", h.Dest),
	}
	if i != nil {
		attributes = append(attributes, slog.Any("ni", i.NID))
	}
	if p != nil {
		attributes = append(attributes, slog.Any("neighbour", p.NID))
	}
	if h.Type == lnet.MsgPut || h.Type == lnet.MsgGet {
		attributes = append(attributes, slog.Uint64("portal", uint64(h.Portal)), slog.Uint64("bits", h.MatchBits))
	}
	n.log.LogAttrs(context.Background(), slog.LevelDebug, "message dropped", attributes...)
}

// dropped counts a dropped message with nbytes of payload, among the NI's and the
// neighbour's too.
func (i *ni) dropped(r DropReason, p *peerNI, h *lnet.Header, nbytes int) {
	i.countDropped(p, h.Type, nbytes)
	i.node.dropped(r, i, p, h)
}

// reasonOf is the reason for a cause of package portals.
func reasonOf(c portals.Cause) DropReason {
	switch c {
	case portals.CauseNoPortal:
		return DropNoPortal
	case portals.CauseTooLong:
		return DropTooLong
	case portals.CauseBehind:
		return DropHandlerBehind
	case portals.CauseFull:
		return DropPortalFull
	case portals.CauseNoMD:
		return DropNoMD
	case portals.CauseUsedUp:
		return DropUsedUp
	case portals.CauseUnasked:
		return DropUnasked
	case portals.CauseClosed:
		return DropClosing
	}
	return DropNoMatch
}

// reasonFor is the reason for a failure to send.
func (n *Node) reasonFor(err error) DropReason {
	switch {
	case errors.Is(err, errOverdue):
		return DropOverdue
	case errors.Is(err, errHopDown):
		return DropHopDown
	case errors.Is(err, errRule):
		return DropFaultRule
	case errors.Is(err, ErrClosed), errors.Is(err, lnd.ErrClosed), n.isClosing():
		return DropClosing
	case errors.Is(err, errAbsent):
		return DropAbsent
	case errors.Is(err, errNoRoom):
		return DropPeerBound
	case errors.Is(err, ErrUnreachable):
		return DropNoRoute
	}
	return DropNotSent
}

// lost tells of m, which did not leave, if nobody else does: a PUT or GET of this
// node ends with an event, which counts as dropped only where kernels count it.
func (m *message) lost(err error) {
	h := &m.tx.Header
	r := m.node.reasonFor(err)
	switch {
	case m.passage.forward, r == DropOverdue:
		m.ni.dropped(r, m.peer, h, m.tx.Payload.Length)
	case m.isAnswer():
		m.node.dropped(r, m.ni, m.peer, h)
	}
}
