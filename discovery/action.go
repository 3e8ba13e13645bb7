package discovery

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// Key identifies a message or a caller that waits. The caller of the Machine chooses it.
type Key uint64

// RequestID identifies a ping or a push. It is never reused. 0 means none.
type RequestID uint64

// Action is something that the caller of the Machine must do. Its String is a line of a
// trace. Actions must be performed in order. SendPing, SendPush and Release must not be
// performed in the goroutine that runs the Machine.
type Action interface{ String() string }

// SendPing sends a ping (discovery 6.2): a GET to portal 0 with a response tracker. Its end
// must be reported by one call of PingReply, Failed or Refused, unless a Cancel comes
// first.
type SendPing struct {
	ID   RequestID
	Peer PeerID
	// To is the target. For a Multi-Rail peer, another NID of the peer may be used instead.
	To lnet.NID
	// Net, if not 0, is the net over which the ping must be sent, because it checks a
	// router or finds out which of two peers has a NID.
	Net lnet.Net
	// Size is the room for the reply, in bytes.
	Size int
}

// SendPush sends a push (discovery 6.3): a PUT of the local ping info to portal 0, with an
// ACK and a response tracker. Its end must be reported by one call of PushAcked, Failed or
// Refused, unless a Cancel comes first.
type SendPush struct {
	ID   RequestID
	Peer PeerID
	To   lnet.NID
	// Source is the NID to send from. The zero NID means any.
	Source lnet.NID
	// Seq is the minimum sequence number of the ping info to send.
	Seq uint32
}

// Cancel ends a ping or push whose result is no longer needed. The node must unlink its MD.
// A later call of PingReply, PushAcked, Failed or Refused for it does nothing.
type Cancel struct{ ID RequestID }

// Attach reports that a NID now belongs to a peer.
type Attach struct {
	NID  lnet.NID
	Peer PeerID
	// From is the peer that the NID belonged to before. It keeps its credits and health. If
	// From is 0, they start afresh.
	From PeerID
}

// Detach reports that a NID no longer belongs to a peer. The node keeps its record until
// its last message ends (discovery 7.8).
type Detach struct {
	NID  lnet.NID
	Peer PeerID
}

// SetPrimary reports that primary NID of a peer changed.
type SetPrimary struct {
	Peer     PeerID
	Old, New lnet.NID
}

// ViewChanged holds the View of a peer that is new or has changed. It comes after the
// Attach of each of the peer's NIDs.
type ViewChanged struct{ View *View }

// Gone reports that a peer was removed. Its last View has no NIDs.
type Gone struct{ View *View }

// MarkStatus holds the status of a NID as its node reported it (discovery 7.3). If it
// differs from the known status and is Down, it counts as one remote failure. If it is Up,
// as before, and no message ever came from the NID, the NID gets full health.
type MarkStatus struct {
	NID    lnet.NID
	Status lnet.NIStatus
}

// ForgetPreferred discards the preferred local NIDs that traffic has set for the peer's
// NIDs, because the peer is Multi-Rail now (discovery 2.5).
type ForgetPreferred struct{ Peer PeerID }

// Release releases parked messages. If Err is nil, they must be sent as if they were new,
// to the peer that has the NID now. Otherwise they fail with Err (discovery 5.3). Each
// parked key is released once.
type Release struct {
	Keys []Key
	Err  error
}

// Wake ends the wait of a caller of Discover, ForceDiscover or PrimaryNID.
type Wake struct {
	Waiter Key
	// NID is the NID in the call. Primary is the primary NID of the peer that has it now,
	// or NID if Err is not nil.
	NID, Primary lnet.NID
	Err          error
}

// EnlargePush requests room for received pushes of at least Size bytes (discovery 4.6).
type EnlargePush struct{ Size int }

// GatewayInfo holds the ping info of a gateway, for lnet-core 8.3. It comes after the
// MarkStatus of its NIDs.
type GatewayInfo struct {
	Peer PeerID
	// Info must not be modified.
	Info *lnet.PingInfo
}

// GatewayChecked reports that a round with a gateway has ended. If Err is not nil, the
// gateway is dead, and all its NIDs and routes are down (discovery 6.8).
type GatewayChecked struct {
	Peer PeerID
	Err  error
}

// MoveRoutes reports that routes through the NID From, which was removed or belongs to
// another peer now, must lead through To, a NID of Peer. Routes that are then duplicates
// are removed by the rules of lnet-core 8.1.
type MoveRoutes struct {
	From, To lnet.NID
	Peer     PeerID
}

// Log is a message for administrators.
type Log struct {
	// Warn distinguishes a warning from information.
	Warn bool
	// Peer is the primary NID of the peer.
	Peer lnet.NID
	// Text is one of a fixed set of texts.
	Text string
	// NIDs and Err are the subject of the message. If there are no NIDs, it is the peer
	// itself. Others is the number of further NIDs that are not listed.
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
