package socklnd

import (
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Bounds on what is remembered of peers that have gone; an entry takes about
// 100 bytes.
const (
	rememberedAtHome  = 8192
	rememberedClaimed = 512
)

// departed remembers the lives of peers that have left an interface's table, so
// that one that comes back with another is known to have restarted. It needs
// no clock: who has gone is forgotten for others that went later.
//
// A HELLO may claim any NID. Peers that were met at their NID's own address are
// kept apart from those that only claimed theirs: a host can make others be
// forgotten with no more names than it has addresses. The zero value remembers
// nobody.
type departed struct {
	home, claimed generations
}

// keep remembers a peer that leaves; none that has never been met, nor a process
// whose restart nobody is told of.
func (d *departed) keep(id lnet.ProcessID, lives protocol.Lives, home bool) {
	if id.PID != lnet.PIDLustre || !lives.Any() {
		return
	}
	if home {
		d.home.put(id.NID, lives, rememberedAtHome)
	} else {
		d.claimed.put(id.NID, lives, rememberedClaimed)
	}
}

// recall hands out, for good, what is remembered of a peer that comes.
func (d *departed) recall(id lnet.ProcessID) (lives protocol.Lives, home bool) {
	if id.PID != lnet.PIDLustre {
		return lives, false
	}
	if lives, home = d.home.take(id.NID); home {
		return lives, true
	}
	lives, _ = d.claimed.take(id.NID)
	return lives, false
}

// generations are a memory in two parts: when the young one is full the old one
// is given up and the young one is the old one. So at least the last size
// entries are there, and at most twice as many.
type generations struct {
	young, old map[lnet.NID]protocol.Lives
}

// put adds an entry, which is not there.
func (g *generations) put(nid lnet.NID, lives protocol.Lives, size int) {
	if len(g.young) >= size {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = make(map[lnet.NID]protocol.Lives)
	}
	g.young[nid] = lives
}

// take takes an entry out.
func (g *generations) take(nid lnet.NID) (lives protocol.Lives, found bool) {
	for _, m := range []map[lnet.NID]protocol.Lives{g.young, g.old} {
		if lives, found = m[nid]; found {
			delete(m, nid)
			return lives, true
		}
	}
	return lives, false
}
