package daemon

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/node"
)

// controlPeer describes a peer as lnetctl shows it, with times since boot; its NIs
// are appended to nis.
func controlPeer(i *node.PeerInfo, boot time.Time, nis []control.PeerNI) control.Peer {
	p := control.Peer{
		ID: uint64(i.ID), Primary: i.Primary, MultiRail: i.MultiRail, State: uint32(i.State), Seq: i.Seq, Told: i.Told, Gateway: i.Gateway,
		NIs: slices.Grow(nis, len(i.NIs)),
	}
	for k := range i.NIs {
		p.NIs = append(p.NIs, controlPeerNI(&i.NIs[k], boot))
	}
	return p
}

func controlPeerNI(i *node.PeerNIInfo, boot time.Time) control.PeerNI {
	return control.PeerNI{
		NID:           i.NID,
		State:         i.Aliveness.String(),
		Trouble:       i.Trouble.String(),
		Credits:       control.Credits(i.Credits),
		RouterCredits: control.Credits(i.RouterCredits),
		QueuedBytes:   i.QueuedBytes,
		Refs:          i.Refs,
		Statistics:    statistics(&i.Traffic),
		UDSP:          udspInfo(&i.Policy),
		Sent:          control.MessageCounts(i.Traffic.Sent),
		Received:      control.MessageCounts(i.Traffic.Received),
		Dropped:       control.MessageCounts(i.Traffic.Dropped),
		Health: control.PeerHealthStats{
			Value:           i.Health.Value,
			Dropped:         i.Health.RemoteDropped,
			Timeouts:        i.Health.RemoteTimeouts,
			Errors:          i.Health.RemoteErrors,
			NetworkTimeouts: i.Health.NetworkTimeouts,
			PingCount:       uint64(i.Health.Pings),
			NextPing:        secondsSince(boot, i.Health.NextPing),
		},
	}
}
