package node

import (
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// DownReason is a set of reasons why an NI is down (lnet-core 9.2, 12.1). It is 0 if the
// NI is up.
type DownReason uint32

// Reasons why an NI is down.
const (
	// DownLink means that the driver reports the link as down.
	DownLink DownReason = 1 << iota
	// DownHealth means that the NI's health fell to 0 and has not become full since.
	DownHealth
	// DownSilence means that the node is a router and no pings arrive on the NI's net.
	DownSilence
)

// String returns the reasons in words, such as "link down". It is empty for an NI that is
// up.
func (r DownReason) String() string {
	var why []string
	for k, name := range [...]string{"link down", "health is 0", "no pings arrive from the net"} {
		if r&(1<<k) != 0 {
			why = append(why, name)
		}
	}
	return strings.Join(why, ", ")
}

// down returns the reasons why the NI is down, or 0 if it is up.
func (i *ni) down() DownReason {
	why := DownReason(i.stored.Load())
	if lnd.LinkState(i.link.Load()) == lnd.LinkDown {
		why |= DownLink
	}
	return why
}

// status returns the NI's status in ping info.
func (i *ni) status() lnet.NIStatus {
	if i.down() != 0 {
		return lnet.StatusDown
	}
	return lnet.StatusUp
}

// setLink stores the link state. It returns false if it has not changed.
func (i *ni) setLink(s lnd.LinkState) bool {
	i.statusMu.Lock()
	defer i.statusMu.Unlock()
	before := i.status()
	changed := i.link.Swap(uint32(s)) != uint32(s)
	i.dateStatus(before)
	return changed
}

// dateStatus records the time if the status is no longer that from before. The caller holds i.statusMu.
func (i *ni) dateStatus(before lnet.NIStatus) {
	if i.status() != before {
		i.statusSince.Store(i.node.now())
	}
}

// blame adds the reasons why to the stored reasons, or removes them if holds is false. It
// reports whether the NI has changed between having stored reasons and having none.
func (i *ni) blame(why DownReason, holds bool) bool {
	i.statusMu.Lock()
	defer i.statusMu.Unlock()
	return i.blameLocked(why, holds)
}

func (i *ni) blameLocked(why DownReason, holds bool) bool {
	old := DownReason(i.stored.Load())
	now := old &^ why
	if holds {
		now = old | why
	}
	before := i.status()
	i.stored.Store(uint32(now))
	i.dateStatus(before)
	return (old != 0) != (now != 0)
}

// updateStatus publishes the NI's status after a change of health, if the status has
// changed. The reason DownHealth is set when the health reaches 0 and removed only when
// the health is full.
func (i *ni) updateStatus() {
	i.statusMu.Lock()
	defer i.statusMu.Unlock()
	changed := false
	switch i.health.value.Load() {
	case 0:
		changed = i.blameLocked(DownHealth, true)
	case MaxHealth:
		changed = i.blameLocked(DownHealth, false)
	}
	switch {
	case !changed:
	case i.node.router.forwards():
		i.node.republish()
	default:
		i.node.republishInfo()
	}
}

// endSilence removes DownSilence from all NIs when the node stops forwarding. Other nodes
// do not ping a node that is no router, so silence is no longer a sign of a failure.
func (n *Node) endSilence() {
	changed := false
	for _, i := range n.topology.Load().nis {
		changed = i.blame(DownSilence, false) || changed
	}
	if changed {
		n.republish()
	}
}
