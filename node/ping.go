package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// pingTarget is the ping info that this node returns to others. Node.infoMu guards it.
type pingTarget struct {
	info   lnet.PingInfo
	bytes  []byte // encoding of info; never modified
	seq    uint32
	handle lnet.Handle
}

// rebuildInfo publishes ping info under the next sequence number, after the NIs have
// changed, and makes discovery push it to peers. n.infoMu must be held. A ping always
// finds an MD, because the new one is attached before the old one is unlinked. No handler
// runs meanwhile, because the MD accepts only GETs, and so no waiting PUT.
func (n *Node) rebuildInfo() {
	n.target.seq++
	n.postInfo()
	t := n.topology.Load().withSeq(n.target.seq)
	n.topology.Store(t)
	n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.SetSeq(now, t.local.Seq, t.nets()) })
}

// pingBytes returns the encoded ping info. The caller must not modify it.
func (n *Node) pingBytes() []byte {
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	return n.target.bytes
}

// postInfo publishes ping info with the current NIs and their status, under the current
// sequence number. n.infoMu must be held.
func (n *Node) postInfo() {
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatMultiRail,
		PID:      n.pid,
		Seq:      n.target.seq,
	}
	if m := n.parameters.Load().Discovery; m == discovery.On || m == discovery.Verify {
		info.Features |= lnet.FeatDiscovery
	}
	if !n.router.announced() {
		info.Features |= lnet.FeatRoutingDisabled
	}
	nis := n.topology.Load().nis
	if len(nis) > 0 && nis[0].NID.IsLarge() {
		info.Features |= lnet.FeatPrimaryLarge
	}
	for _, large := range [...]bool{false, true} {
		for _, i := range nis {
			if i.NID.IsLarge() == large {
				info.NIs = append(info.NIs, lnet.PingNI{NID: i.NID, Status: i.status()})
				if large {
					info.Features |= lnet.FeatLargeAddr
				}
			}
		}
	}
	bytes := info.Append(nil, binary.LittleEndian)
	h, accepted, dropped, err := n.table.Attach(
		portals.Entry{Portal: lnet.ReservedPortal, MatchBits: lnet.PingMatchBits, Position: portals.After},
		portals.MD{
			Bytes:     bytes,
			Threshold: portals.Unlimited,
			Options:   portals.OpGet | portals.Truncate | portals.ManageRemote,
		})
	n.resumeDelayed(accepted, dropped)
	old := n.target.handle
	n.target.info, n.target.bytes = info, bytes
	if err != nil { // the node is closed
		return
	}
	n.target.handle = h
	if old != (lnet.Handle{}) {
		_ = n.table.Unlink(old) // not found: the node was closed meanwhile
	}
}

// PingInfo returns the ping info with which this node answers pings.
func (n *Node) PingInfo() lnet.PingInfo {
	if !n.isMade() {
		return lnet.PingInfo{}
	}
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	info := n.target.info
	info.NIs = append([]lnet.PingNI(nil), info.NIs...)
	return info
}

// Sizes for pings: the buffer for the reply has pingHeader bytes and pingEntryRoom bytes
// for each NID, but at most pingRoomMax (lnet-wire 7.6).
const (
	pingHeader    = 16
	pingEntryRoom = 24
	pingRoomMax   = 3960
	pingRounds    = 4 // how often a ping is sent if the ping info keeps growing
)

// PingOptions are the parameters of a ping.
type PingOptions struct {
	// Source, if neither zero nor AnyNID, is the local NID to send from.
	Source lnet.NID
	// Entries is the number of NIDs for which the first reply buffer has room. Zero means
	// Parameters.InterfacesMax.
	Entries int
	// Room, if not 0, is the size of the first reply buffer in bytes, at most 1 MiB. Entries
	// is then ignored.
	Room int
	// Sender, if not nil, receives the NID of the neighbour from which the answer arrived:
	// the target, or the gateway through which the target has answered.
	Sender *lnet.NID
}

// Ping requests the ping info of the node with the NID in to. 0@lo stands for this node.
// If the ping info does not fit into the reply buffer, Ping repeats the request with a
// larger buffer. A PID of 0 means lnet.PIDLustre. Ping blocks until the answer arrives,
// the message fails, ctx is done or the node closes. It returns the error of the message,
// such as ErrUnreachable or a driver's error; or ErrInHandler if a handler calls it.
func (n *Node) Ping(ctx context.Context, to lnet.ProcessID, o PingOptions) (lnet.PingInfo, error) {
	if to.PID == 0 {
		to.PID = lnet.PIDLustre
	}
	if err := n.checkMayBlock(); err != nil {
		return lnet.PingInfo{}, fmt.Errorf("ping %s: %w", to, err)
	}
	interfacesMax := n.parameters.Load().InterfacesMax
	room := o.Room
	if room == 0 {
		entries := o.Entries
		if entries <= 0 {
			entries = interfacesMax
		}
		room = min(pingHeader+pingEntryRoom*min(entries, interfacesMax), pingRoomMax)
	}
	if room < pingHeader || room > lnet.MTU {
		return lnet.PingInfo{}, fmt.Errorf("ping %s: reply buffer of %d bytes: not within %d to %d bytes: %w",
			to, room, pingHeader, lnet.MTU, ErrInvalid)
	}
	for range pingRounds {
		b, sender, err := n.fetchInfo(ctx, to, o.Source, room)
		if err != nil {
			return lnet.PingInfo{}, fmt.Errorf("ping %s: %w", to, err)
		}
		info, err := lnet.DecodePingInfo(b, interfacesMax)
		var short *lnet.TruncatedError
		switch {
		case err == nil:
			if o.Sender != nil {
				*o.Sender = sender
			}
			return info, nil
		case !errors.As(err, &short):
			return lnet.PingInfo{}, fmt.Errorf("ping %s: %w", to, err)
		case len(b) < min(short.Need, room):
			return lnet.PingInfo{}, fmt.Errorf("ping %s: received %d of %d bytes: %w", to, len(b), min(short.Need, room), ErrShortReply)
		case short.Need > lnet.MTU:
			return lnet.PingInfo{}, fmt.Errorf("ping %s: ping info of %d bytes: more than %d bytes: %w", to, short.Need, lnet.MTU, ErrInvalid)
		}
		room = short.Need
		n.push.enlarge(n, room)
	}
	return lnet.PingInfo{}, fmt.Errorf("ping %s: the ping info was longer than the reply buffer in each of %d attempts: %w", to, pingRounds, ErrShortReply)
}

// fetchInfo pings a node and returns the first room bytes of its ping info, without
// decoding them, and the neighbour from which they arrived.
func (n *Node) fetchInfo(ctx context.Context, to lnet.ProcessID, source lnet.NID, room int) ([]byte, lnet.NID, error) {
	b := make([]byte, room)
	o := GetOptions{Source: source, Portal: lnet.ReservedPortal, MatchBits: lnet.PingMatchBits}
	a, err := n.wait(ctx, b, portals.EventReply, 0, func(h lnet.Handle) error { return n.Get(h, to, o) })
	if err != nil {
		return nil, lnet.NID{}, unwrapInFlight(err)
	}
	n.noteWanted(to.NID)
	return b[:a.length], a.sender, nil
}
