package o2iblnd

import (
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// rememberedPeers limits the number of departed peers to remember. An entry takes about 100 bytes.
const rememberedPeers = 8192

// departed remembers peers that have left an interface's table, so that a peer that returns with
// another incarnation is known to have restarted. The zero value is empty.
type departed struct {
	peers peering.Generations[lnet.NID, past]
}

type past struct {
	peering  protocol.Peering
	presumed bool
}

// keep remembers a peer, if it was ever met. p.mu is held.
func (d *departed) keep(p *peer) {
	if p.peering.Version != 0 {
		d.peers.Put(p.nid, past{p.peering, p.presumed}, rememberedPeers)
	}
}

// recall removes and returns the record of a peer.
func (d *departed) recall(nid lnet.NID) (protocol.Peering, bool) {
	v, _ := d.peers.Take(nid)
	return v.peering, v.presumed
}
