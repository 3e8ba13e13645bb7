package daemon

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

// controlPeer converts a peer to the form of the control interface. Times are shown in seconds since
// boot. The result uses the memory of nis for the list of NIs if its capacity suffices.
func controlPeer(i *node.PeerInfo, boot time.Time, nis []api.PeerNI) api.Peer {
	p := api.Peer{
		ID: uint64(i.ID), Primary: i.Primary, MultiRail: i.MultiRail, State: uint32(i.State), Seq: i.Seq, Told: i.AckedSeq, Gateway: i.Gateway,
		NIs: slices.Grow(nis, len(i.NIs)),
	}
	p.Unanswered = !i.Heard && !i.Gateway && !i.State.Has(discovery.Configured|discovery.LockPrimary)
	p.Unused = !i.Heard && !i.State.Has(discovery.Discovered)
	for k := range i.NIs {
		p.NIs = append(p.NIs, controlPeerNI(&i.NIs[k], boot))
	}
	return p
}

func controlPeerNI(i *node.PeerNIInfo, boot time.Time) api.PeerNI {
	return api.PeerNI{
		NID:           i.NID,
		State:         i.Aliveness.String(),
		Trouble:       i.Trouble.String(),
		Credits:       api.Credits(i.Credits),
		RouterCredits: api.Credits(i.RouterCredits),
		QueuedBytes:   i.QueuedBytes,
		Refs:          i.Refs,
		Statistics:    statistics(&i.Traffic),
		UDSP:          udspInfo(&i.Policy),
		Sent:          api.MessageCounts(i.Traffic.Sent),
		Received:      api.MessageCounts(i.Traffic.Received),
		Dropped:       api.MessageCounts(i.Traffic.Dropped),
		Health: api.PeerHealthStats{
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
