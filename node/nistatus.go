package node

import (
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// DownReason says why an NI is down (lnet-core 9.2, 12.1); several reasons may
// hold. The zero value: it is up.
type DownReason uint32

// The reasons.
const (
	// DownLink: the driver says that the link is.
	DownLink DownReason = 1 << iota
	// DownHealth: its health fell to 0, and has not been at its best since.
	DownHealth
	// DownSilence: the node forwards, and nobody pings on the net.
	DownSilence
)

// String is empty for an NI that is up, else for example "link down".
func (r DownReason) String() string {
	var why []string
	for k, name := range [...]string{"link down", "no health", "nobody pings on the net"} {
		if r&(1<<k) != 0 {
			why = append(why, name)
		}
	}
	return strings.Join(why, ", ")
}

// down is why the NI is, 0: it is up.
func (i *ni) down() DownReason {
	why := DownReason(i.stored.Load())
	if lnd.LinkState(i.link.Load()) == lnd.LinkDown {
		why |= DownLink
	}
	return why
}

// status is the NI's status in ping info.
func (i *ni) status() lnet.NIStatus {
	if i.down() != 0 {
		return lnet.StatusDown
	}
	return lnet.StatusUp
}

// blame adds a reason for the NI to be down, or takes reasons back. It reports
// whether the stored status has become another one by that.
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
	i.stored.Store(uint32(now))
	return (old != 0) != (now != 0)
}

// updateStatus makes ping info say that an NI is down whose health has fallen to
// 0, and up again when it is at its best, unless something else is against it.
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
		i.node.restate()
	default:
		i.node.restateInfo()
	}
}

// endSilence forgets which NIs nobody pinged while the node forwarded: a node
// that does not is pinged by nobody.
func (n *Node) endSilence() {
	changed := false
	for _, i := range n.topology.Load().nis {
		changed = i.blame(DownSilence, false) || changed
	}
	if changed {
		n.restate()
	}
}
