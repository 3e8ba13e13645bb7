package socklnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Bounds on what is remembered of peers that have gone; an entry takes about
// 100 bytes.
const (
	rememberedAtHome  = 8192
	rememberedClaimed = 512
	rememberedFailed  = 8192
)

// departed remembers peers that have left an interface's table: their lives, so
// that one that comes back with another is known to have restarted, and how long
// one that could not be called is left alone. It needs no clock: who has gone is
// forgotten for others that went later.
//
// A HELLO may claim any NID. Peers that were met at their NID's own address are
// kept apart from those that only claimed theirs: a host can make others be
// forgotten with no more names than it has addresses. The zero value remembers
// nobody.
type departed struct {
	home, claimed peering.Generations[lnet.NID, protocol.Lives]
	failed        peering.Generations[lnet.ProcessID, protocol.Backoff]
}

// keep remembers a peer that leaves; none that has never been met, nor a process
// whose restart nobody is told of.
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

// keepFailed remembers how long a peer that could not be called is left alone.
func (d *departed) keepFailed(id lnet.ProcessID, b protocol.Backoff) {
	if !b.Next().IsZero() {
		d.failed.Put(id, b, rememberedFailed)
	}
}

// recallFailed hands that out, unless it was so long ago that it does not count.
func (d *departed) recallFailed(id lnet.ProcessID, now time.Time) (b protocol.Backoff) {
	if b, _ = d.failed.Take(id); now.After(b.Next().Add(b.Max)) {
		return protocol.Backoff{}
	}
	return b
}

// recall hands out, for good, what is remembered of a peer that comes.
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
