package discovery

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// Key names something of the caller's: a message that waits or a caller that
// does.
type Key uint64

// RequestID names a ping or a push. It is never used again; 0 is none.
type RequestID uint64

// Action is something that the Machine wants done; its String is a line of a
// trace. Actions are done in their order, SendPing, SendPush and Release
// outside of the goroutine that runs the Machine.
type Action interface{ String() string }

// SendPing wants a ping (discovery 6.2): a GET to portal 0 with a response tracker. It ends
// with one call of PingReply, Failed or Refused, unless a Cancel comes first.
type SendPing struct {
	ID   RequestID
	Peer PeerID
	// To is the target; for a Multi-Rail peer another NID of it does as well.
	To lnet.NID
	// Net, if not 0, is the net that the ping has to go over: it is a router check,
	// or asks who has a NID that two peers name.
	Net lnet.Net
	// Size is the room for the reply, in bytes.
	Size int
}

// SendPush wants a push (discovery 6.3): a PUT of our ping info to portal 0, with an ACK
// and a response tracker. It ends with one call of PushAcked, Failed or
// Refused, unless a Cancel comes first.
type SendPush struct {
	ID   RequestID
	Peer PeerID
	To   lnet.NID
	// Source is the NID to send from; zero: any.
	Source lnet.NID
	// Seq is the sequence number that the ping info has at least.
	Seq uint32
}

// Cancel says that nobody waits for a ping or push any more. Its MD is unlinked;
// a call for it that comes too late does nothing.
type Cancel struct{ ID RequestID }

// Attach says that a NID belongs to a peer now.
type Attach struct {
	NID  lnet.NID
	Peer PeerID
	// From is the peer that it belonged to, and keeps its credits and health
	// from; 0: it starts afresh.
	From PeerID
}

// Detach says that a NID belongs to no peer any more. What the node has of it
// lives on until its last message ends (discovery 7.8).
type Detach struct {
	NID  lnet.NID
	Peer PeerID
}

// SetPrimary says that a peer goes by another NID.
type SetPrimary struct {
	Peer     PeerID
	Old, New lnet.NID
}

// ViewChanged gives the View of a peer that is new or has changed. It comes
// after the Attach of each of its NIDs.
type ViewChanged struct{ View *View }

// Gone says that a peer is no more; its last View has no NIDs.
type Gone struct{ View *View }

// MarkStatus gives the status of a NID as its node told it (discovery 7.3): if it differs
// from the one kept, and is Down, it counts as one remote failure; if it is Up,
// as before, and the NID was never heard from, its health is the best.
type MarkStatus struct {
	NID    lnet.NID
	Status lnet.NIStatus
}

// ForgetPreferred says that what traffic made the preferred local NIDs of the
// peer's NIDs is void: it is Multi-Rail now (discovery 2.5).
type ForgetPreferred struct{ Peer PeerID }

// Release gives messages back: with nil they are sent as if they were new, to
// whoever has the NID now; else they end with the error (discovery 5.3). Each parked key
// is released once.
type Release struct {
	Keys []Key
	Err  error
}

// Wake ends the wait of a caller of Discover or PrimaryNID.
type Wake struct {
	Waiter Key
	// NID is what was asked for, Primary the primary NID of the peer that has
	// it now; on an error it is NID.
	NID, Primary lnet.NID
	Err          error
}

// EnlargePush wants room for pushes of this many bytes at least (discovery 4.6).
type EnlargePush struct{ Size int }

// GatewayInfo gives what a gateway told, for lnet-core 8.3; the MarkStatus of its
// NIDs have come before.
type GatewayInfo struct {
	Peer PeerID
	// Info is not to be changed.
	Info *lnet.PingInfo
}

// GatewayChecked says that a round with a gateway has ended. With an error the
// gateway is dead, all its NIDs are down, and its routes are (discovery 6.8).
type GatewayChecked struct {
	Peer PeerID
	Err  error
}

// MoveRoutes says that routes that lead through a NID which is gone, From, lead
// through To, of the peer that has taken its place (lnet-core 8.1 says which
// routes are one too many).
type MoveRoutes struct {
	From, To lnet.NID
	Peer     PeerID
}

// Log is something that an administrator may want to know.
type Log struct {
	// Warn says that something is wrong; else it is for information.
	Warn bool
	// Peer is the primary NID.
	Peer lnet.NID
	// Text is one of few.
	Text string
	// NIDs and Err are what it is about; none: the peer itself. Others counts further NIDs
	// that are not named.
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

// String is a line for traces: "p1 10.0.0.1@tcp [10.0.0.1@tcp] seq 2 told 1 MULTI_RAIL".
func (v *View) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "p%d %s %v seq %d told %d %s", v.ID, v.Primary, v.NIDs, v.Seq, v.Told, v.State)
	if v.Untold {
		s.WriteString(" untold")
	}
	if v.Gateway {
		s.WriteString(" gateway")
	}
	return s.String()
}
