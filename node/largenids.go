package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
)

// fits says why the path that p has chosen cannot carry m's header: it has a NID
// with a 16-byte address, and the driver has none for those (lnet-wire 4.9). That
// costs nobody health, and another try would end alike: the NIs of a net are of one
// kind.
func (p *plan) fits(m *message) error {
	nid := p.target
	if m.passage.forward && m.tx.Header.Src.IsLarge() {
		nid = m.tx.Header.Src
	}
	if !nid.IsLarge() || p.d.Loopback() || p.d.NI.Owner.(*ni).iface.LargeNIDs() {
		return nil
	}
	return fmt.Errorf("%s by %s: %w: %w", nid, p.d.NI.NID, lnd.ErrLargeNID, ErrUnreachable)
}
