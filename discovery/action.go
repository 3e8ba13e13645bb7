package discovery

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// Key identifies a parked message or a waiting caller. The caller of the Machine chooses
// it.
type Key uint64

// RequestID identifies a ping or a push. No other request of the Machine gets the same ID.
// 0 means none.
type RequestID uint64

// Action is something that the caller of the Machine must do. Actions must be performed in
// order. SendPing, SendPush and Release must not be performed in the goroutine that runs
// the Machine. String returns a line for traces.
type Action interface{ String() string }

// SendPing requests a ping (discovery 6.2): a GET to portal 0 with a response tracker. The
// caller must report its result by one call of PingReply, Failed or Refused, unless it
// receives a Cancel for it first.
type SendPing struct {
	ID   RequestID
	Peer PeerID
	// To is the target. For a Multi-Rail peer, another NID of the peer may be used instead.
	To lnet.NID
	// Net, if not 0, is the net over which the ping must be sent. It is set if the ping
	// checks a router, or finds out which of two peers has a NID.
	Net lnet.Net
	// Size is the size of the buffer for the reply, in bytes.
	Size int
}

// SendPush requests a push (discovery 6.3): a PUT of the local ping info to portal 0, with
// an ACK and a response tracker. The caller must report its result by one call of
// PushAcked, Failed or Refused, unless it receives a Cancel for it first.
type SendPush struct {
	ID   RequestID
	Peer PeerID
	To   lnet.NID
	// Source is the NID to send from. The zero NID means any.
	Source lnet.NID
	// Seq is the minimum sequence number of the ping info to send.
	Seq uint32
}

// Cancel ends the ping or push with this ID, whose result is no longer needed. The node
// must unlink its MD. If PingReply, PushAcked, Failed or Refused is called for this ID
// later, the call does nothing.
type Cancel struct{ ID RequestID }

// Attach reports that a NID now belongs to a peer.
type Attach struct {
	NID  lnet.NID
	Peer PeerID
	// From is the peer that the NID belonged to before. The node must then keep the NID's
	// credits and health. If From is 0, the NID is new.
	From PeerID
}

// Detach reports that a NID no longer belongs to a peer. The node keeps its own record of
// the NID until the last message to or from it has ended (discovery 7.8).
type Detach struct {
	NID  lnet.NID
	Peer PeerID
}

// SetPrimary reports that the primary NID of a peer has changed.
type SetPrimary struct {
	Peer     PeerID
	Old, New lnet.NID
}

// ViewChanged holds the new View of a peer that was created or has changed. It comes after
// the Attach actions for the peer's NIDs.
type ViewChanged struct{ View *View }

// Gone reports that a peer was removed. Its last View has no NIDs.
type Gone struct{ View *View }

// MarkStatus holds the status of a NID that its own node reported (discovery 7.3). If the
// status changes to down, it counts as one remote failure. If it is up and was up before,
// and no message ever came from the NID, the NID gets full health.
type MarkStatus struct {
	NID    lnet.NID
	Status lnet.NIStatus
}

// ForgetPreferred discards the preferred local NIDs of the peer's NIDs that were set
// because of arriving messages. They no longer apply, because the peer has become
// Multi-Rail (discovery 2.5).
type ForgetPreferred struct{ Peer PeerID }

// Release ends the wait of parked messages. If Err is nil, they must be sent as if they
// were new, to the peer that has the NID now. Otherwise they fail with Err (discovery
// 5.3). Each key that was passed to Park appears in exactly one Release.
type Release struct {
	Keys []Key
	Err  error
}

// Wake ends the wait of a caller of Discover, ForceDiscover or PrimaryNID.
type Wake struct {
	Waiter Key
	// NID is the NID that the caller passed. Primary is the primary NID of the peer that has
	// this NID now. If Err is not nil, Primary is NID.
	NID, Primary lnet.NID
	Err          error
}

// EnlargePush requests that the buffers for arriving pushes have at least Size bytes
// (discovery 4.6).
type EnlargePush struct{ Size int }

// GatewayInfo holds the ping info of a gateway, from which the node determines the state
// of its routes (lnet-core 8.3). It comes after the MarkStatus actions for the gateway's
// NIDs.
type GatewayInfo struct {
	Peer PeerID
	// Info must not be modified.
	Info *lnet.PingInfo
}

// GatewayChecked reports that a round with a gateway has ended. If Err is not nil, the
// gateway does not answer, and the node must treat all its NIDs and routes as down
// (discovery 6.8).
type GatewayChecked struct {
	Peer PeerID
	Err  error
}

// MoveRoutes reports that routes through the NID From must lead through To, a NID of Peer,
// because From was removed or belongs to another peer now. Routes that become duplicates
// are removed by the rules of lnet-core 8.1.
type MoveRoutes struct {
	From, To lnet.NID
	Peer     PeerID
}

// Log is a log line for administrators.
type Log struct {
	// Warn distinguishes a warning from information.
	Warn bool
	// Peer is the primary NID of the peer.
	Peer lnet.NID
	// Text is one of a fixed set of texts.
	Text string
	// NIDs are the NIDs that the line is about. If the list is empty, the line is about the
	// peer as a whole. Others is the number of further NIDs, which are not listed. Err is the
	// reason, or nil if no reason is given.
	NIDs   []lnet.NID
	Others int
	Err    error
}

func (a SendPing) String() string {
	s := fmt.Sprintf("send-ping #%d to %s size %d", a.ID, a.To, a.Size)
	if a.Net != 0 {
		s += " over " + a.Net.String()
	}
	return s
}

func (a SendPush) String() string {
	s := fmt.Sprintf("send-push #%d to %s seq %d", a.ID, a.To, a.Seq)
	if !a.Source.IsZero() {
		s += " from " + a.Source.String()
	}
	return s
}

func (a Cancel) String() string { return fmt.Sprintf("cancel #%d", a.ID) }

func (a Attach) String() string {
	if a.From != 0 {
		return fmt.Sprintf("attach %s to p%d from p%d", a.NID, a.Peer, a.From)
	}
	return fmt.Sprintf("attach %s to p%d", a.NID, a.Peer)
}

func (a Detach) String() string { return fmt.Sprintf("detach %s from p%d", a.NID, a.Peer) }

func (a SetPrimary) String() string {
	return fmt.Sprintf("set-primary p%d %s -> %s", a.Peer, a.Old, a.New)
}

func (a ViewChanged) String() string { return "view " + a.View.String() }

func (a Gone) String() string { return fmt.Sprintf("gone p%d", a.View.ID) }

func (a MarkStatus) String() string { return fmt.Sprintf("status %s %s", a.NID, a.Status) }

func (a ForgetPreferred) String() string { return fmt.Sprintf("forget-preferred p%d", a.Peer) }

func (a Release) String() string {
	if a.Err != nil {
		return fmt.Sprintf("release %v: %v", a.Keys, a.Err)
	}
	return fmt.Sprintf("release %v", a.Keys)
}

func (a Wake) String() string {
	s := fmt.Sprintf("wake %d: %s is %s", a.Waiter, a.NID, a.Primary)
	if a.Err != nil {
		s += ": " + a.Err.Error()
	}
	return s
}

func (a EnlargePush) String() string { return fmt.Sprintf("enlarge-push %d", a.Size) }

func (a GatewayInfo) String() string { return fmt.Sprintf("gateway-info p%d", a.Peer) }

func (a GatewayChecked) String() string {
	if a.Err != nil {
		return fmt.Sprintf("gateway-checked p%d: %v", a.Peer, a.Err)
	}
	return fmt.Sprintf("gateway-checked p%d", a.Peer)
}

func (a MoveRoutes) String() string {
	return fmt.Sprintf("move-routes %s to %s of p%d", a.From, a.To, a.Peer)
}

func (a Log) String() string {
	level := "info"
	if a.Warn {
		level = "warn"
	}
	s := fmt.Sprintf("%s %s: %s", level, a.Peer, a.Text)
	for k, nid := range a.NIDs {
		s += []string{": ", ", "}[min(k, 1)] + nid.String()
	}
	if a.Others > 0 {
		s += fmt.Sprintf(" and %d others", a.Others)
	}
	if a.Err != nil {
		s += ": " + a.Err.Error()
	}
	return s
}

// String returns a line for traces: "p1 10.0.0.1@tcp [10.0.0.1@tcp] seq 2 told 1
// MULTI_RAIL".
func (v *View) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "p%d %s %v seq %d told %d %s", v.ID, v.Primary, v.NIDs, v.Seq, v.AckedSeq, v.State)
	if v.PushUnacked {
		s.WriteString(" untold")
	}
	if v.Gateway {
		s.WriteString(" gateway")
	}
	return s.String()
}
