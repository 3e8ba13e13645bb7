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

// DropReason is the reason why this node dropped a message without reporting it in an
// event. Such a message arrived and was not accepted, was not forwarded, or was an ACK or
// REPLY that was not sent.
type DropReason uint8

// Every dropped message is counted under one of these reasons.
const (
	DropNoMatch        DropReason = iota // no entry accepts the message
	DropNoPortal                         // the portal does not exist
	DropTooLong                          // the message is longer than the MD that would accept it, or than LNet allows
	DropNoMD                             // the message is an ACK or REPLY for an MD that no longer exists
	DropUsedUp                           // the message is an ACK or REPLY for an MD without operations left
	DropUnsolicited                      // the message is an ACK or REPLY that was not requested
	DropHandlerBacklog                   // too many events of the MD wait for its handler
	DropPortalFull                       // too many messages wait on the lazy portal
	DropAnswersFull                      // too many answers already wait to be sent to the neighbour that sent the request
	DropNotRouter                        // the message is for another node, and this node does not forward
	DropNoRoute                          // no route leads to the net of the destination
	DropAbsent                           // the message is for another node that could not be reached a short time ago
	DropPeerBound                        // the message is from or for an unknown NID, and the node accepts no more peers
	DropHopDown                          // the message is for another node, and the next hop does not answer
	DropAsymmetric                       // the message came through a router through which no route leads back
	DropOtherNI                          // the message is for a NID of this node, but arrived on another of its NIs
	DropMisdirected                      // the message is for another node, but must not be sent through this one
	DropMalformed                        // the header, source or content of the message is invalid
	DropUnknownPeer                      // the message is a push from a NID that belongs to no peer
	DropFaultRule                        // a fault rule drops the message
	DropOverdue                          // the message waited too long for credits
	DropNotSent                          // the message is an answer, or for another node, and could not be sent
	DropConnection                       // the connection ended before the payload had arrived
	DropClosing                          // the node or the NI is closing
	DropReasons        = iota            // number of reasons
)

var dropNames = [DropReasons]string{
	"no_match", "no_portal", "too_long", "no_md", "used_up", "unasked", "handler_behind", "portal_full", "answers_full",
	"not_router", "no_route", "absent", "peer_bound", "hop_down", "asymmetric_route", "other_ni", "misdirected", "malformed", "unknown_peer",
	"fault_rule", "overdue", "not_sent", "connection_lost", "closing",
}

// String returns the name of the reason in commands and metrics. Names are stable and in
// snake case.
func (r DropReason) String() string { return dropNames[r] }

// DropCounts counts dropped messages by reason.
type DropCounts [DropReasons]uint64

// Total returns the sum over all reasons.
func (c *DropCounts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// dropTally holds the counters behind DropCounts.
type dropTally [DropReasons]atomic.Uint64

// Drops returns the number of dropped messages by reason. In addition to those in
// Counters.Dropped, which counts like kernels, it includes answers that could not be sent
// and messages because of which the connection to their sender was closed.
func (a *Admin) Drops() (c DropCounts) {
	n := a.n
	if !n.isMade() {
		return c
	}
	for r := range c {
		c[r] = n.stats.drops[r].Load()
	}
	return c
}

// Refusals returns the number of incoming connections that the node's NIs rejected, by
// reason. It includes those of NIs that were removed.
func (a *Admin) Refusals() lnd.RefusalCounts {
	n := a.n
	if !n.isMade() {
		return lnd.RefusalCounts{}
	}
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	c := n.refusals()
	for r := range c {
		c[r] = less(c[r], n.refusalsBefore[r])
	}
	return c
}

// refusals returns the refusals since the node was created. n.infoMu must be held.
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

// dropped counts a message that was dropped, and logs it at debug level. i is the NI of
// the message. p is the neighbour that the message came from or would have been sent to. i
// and p are nil if they are unknown.
func (n *Node) dropped(r DropReason, i *ni, p *peerNI, h *lnet.Header) {
	n.stats.drops[r].Add(1)
	if n.captures.active() {
		n.captureDrop(r, i, p, h)
	}
	if n.log.Enabled(context.Background(), slog.LevelDebug) {
		n.logDrop(r, i, p, h)
	}
}

func (n *Node) logDrop(r DropReason, i *ni, p *peerNI, h *lnet.Header) {
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

// dropped counts a dropped message with nbytes of payload, for the node, the NI and the
// neighbour.
func (i *ni) dropped(r DropReason, p *peerNI, h *lnet.Header, nbytes int) {
	i.countDropped(p, h.Type, nbytes)
	i.node.dropped(r, i, p, h)
}

// reasonOf returns the DropReason for a cause of package portals.
func reasonOf(c portals.Cause) DropReason {
	switch c {
	case portals.CauseNoPortal:
		return DropNoPortal
	case portals.CauseTooLong:
		return DropTooLong
	case portals.CauseBacklog:
		return DropHandlerBacklog
	case portals.CauseFull:
		return DropPortalFull
	case portals.CauseNoMD:
		return DropNoMD
	case portals.CauseUsedUp:
		return DropUsedUp
	case portals.CauseUnsolicited:
		return DropUnsolicited
	case portals.CauseClosed:
		return DropClosing
	}
	return DropNoMatch
}

// reasonFor returns the DropReason for an error of a send.
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

// countDropped counts m, which could not be sent because of err, as dropped if no event
// reports this. A PUT or GET of this node ends with an event. Like kernels, countDropped
// nevertheless counts it if it waited too long for credits.
func (m *message) countDropped(err error) {
	h := &m.tx.Header
	r := m.node.reasonFor(err)
	switch {
	case m.passage.forward, r == DropOverdue:
		m.ni.dropped(r, m.peer, h, m.tx.Payload.Length)
	case m.isAnswer():
		m.node.dropped(r, m.ni, m.peer, h)
	}
}
