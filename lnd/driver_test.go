package lnd

import (
	"net/netip"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// Given a NID, then it says which net the interface joins; given a net too, then they
// must agree.
func TestTheNIDSaysTheNet(t *testing.T) {
	tcp1, tcp2 := lnet.MakeNet(lnet.TypeTCP, 1), lnet.MakeNet(lnet.TypeTCP, 2)
	nid := lnet.NIDFromIP(tcp1, netip.AddrFrom4([4]byte{10, 0, 0, 1}))
	for _, row := range []struct {
		net  lnet.Net
		nid  lnet.NID
		want lnet.Net
		bad  bool
	}{
		{0, nid, tcp1, false},
		{tcp1, nid, tcp1, false},
		{tcp2, nid, tcp2, true},
		{tcp2, lnet.NID{}, tcp2, false},
		{0, lnet.NID{}, 0, false},
	} {
		c := Config{Net: row.net, NID: row.nid}
		if err := c.Resolve(); (err != nil) != row.bad || c.Net != row.want {
			t.Errorf("net %s, nid %s: %v, net %s; want %s, an error: %v", row.net, row.nid, err, c.Net, row.want, row.bad)
		}
	}
}
