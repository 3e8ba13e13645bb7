package socklnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Limits on the number of departed peers to remember. An entry takes about 100 bytes.
const (
	rememberedAtHome  = 8192
	rememberedClaimed = 512
	rememberedFailed  = 8192
)

// departed remembers peers that have left an interface's table. It keeps their incarnations, so that a
// peer that returns with another one is known to have restarted, and their reconnect back-off. It needs
// no clock: older entries are dropped when newer ones come.
//
// A HELLO may contain any NID. Peers that were met at their NID's own address are kept apart from peers
// that only claimed their NID. So a host can displace only as many entries of real peers as it has
// addresses. The zero value is empty.
type departed struct {
	home, claimed peering.Generations[lnet.NID, protocol.Lives]
	failed        peering.Generations[lnet.ProcessID, protocol.Backoff]
}

// keep remembers a peer that leaves. It ignores peers that were never met, and processes whose restarts
// are not reported.
func (d *departed) keep(id lnet.ProcessID, lives protocol.Lives, home bool) {
	if id.PID != lnet.PIDLustre || !lives.Any() {
		return
	}
	if home {
		d.home.Put(id.NID, lives, rememberedAtHome)
	} else {
		d.claimed.Put(id.NID, lives, rememberedClaimed)
	}
}

// keepFailed remembers the back-off of a peer to which connecting failed.
func (d *departed) keepFailed(id lnet.ProcessID, b protocol.Backoff) {
	if !b.Next().IsZero() {
		d.failed.Put(id, b, rememberedFailed)
	}
}

// recallFailed removes and returns that back-off. If it is too old to matter, it returns the zero
// Backoff.
func (d *departed) recallFailed(id lnet.ProcessID, now time.Time) (b protocol.Backoff) {
	if b, _ = d.failed.Take(id); now.After(b.Next().Add(b.Max)) {
		return protocol.Backoff{}
	}
	return b
}

// recall removes and returns the record of a peer.
func (d *departed) recall(id lnet.ProcessID) (lives protocol.Lives, home bool) {
	if id.PID != lnet.PIDLustre {
		return lives, false
	}
	if lives, home = d.home.Take(id.NID); home {
		return lives, true
	}
	lives, _ = d.claimed.Take(id.NID)
	return lives, false
}
