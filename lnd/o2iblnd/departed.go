package o2iblnd

import (
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// rememberedPeers bounds what is remembered of peers that have gone; an entry takes about
// 100 bytes.
const rememberedPeers = 8192

// departed remembers peers that have left an interface's table, so that one that comes
// back with another incarnation is known to have restarted. The zero value remembers nobody.
type departed struct {
	peers peering.Generations[lnet.NID, past]
}

type past struct {
	peering  protocol.Peering
	presumed bool
}

// keep remembers a peer that was met. Its lock is held.
func (d *departed) keep(p *peer) {
	if p.peering.Version != 0 {
		d.peers.Put(p.nid, past{p.peering, p.presumed}, rememberedPeers)
	}
}

// recall hands out, for good, what is remembered of a peer that comes.
func (d *departed) recall(nid lnet.NID) (protocol.Peering, bool) {
	v, _ := d.peers.Take(nid)
	return v.peering, v.presumed
}
