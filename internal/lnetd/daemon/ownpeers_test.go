package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Given a node whose NI is up or chosen automatically, when documents that do not name the NI
// list its NID among peers, then lists lose only that NID, and a peer with that primary NID is
// removed. The result is the same as for a document that names the NI.
//
// decisions 97
func TestOwnNIDsOfPeersWithoutNet(t *testing.T) {
	const net = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\n"
	n := host(lo, device("eth0", "10.77.0.11/24"))
	for _, c := range []struct {
		name, document string
		want           []string
	}{
		{"list that begins with it", "peers: [{nids: [10.77.0.11@tcp, 10.2.0.1@tcp1, 10.3.0.1@tcp1]}]", []string{"10.2.0.1@tcp1", "10.3.0.1@tcp1"}},
		{"list that ends with it", "peers: [{nids: [10.2.0.2@tcp1, 10.77.0.11@tcp]}]", []string{"10.2.0.2@tcp1"}},
		{"list of it alone", "peers: [{nids: [10.77.0.11@tcp]}]", nil},
		{"peer", "peer: [{primary nid: 10.77.0.11@tcp, Multi-Rail: True, peer ni: [{nid: 10.2.0.9@tcp1}]}]", nil},
		{
			"peer that has it", "peer: [{primary nid: 10.2.0.3@tcp1, Multi-Rail: True, peer ni: [{nid: 10.77.0.11@tcp}, {nid: 10.3.0.3@tcp1}]}]",
			[]string{"10.2.0.3@tcp1", "10.3.0.3@tcp1"},
		},
	} {
		check := func(how, start string, change func(r *nodeRun) error) {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				r := startNodeWith(t, parse(t, start), Drivers{TCP(n)}).ready(t)
				if err := change(r); err != nil {
					t.Fatal(err)
				}
				now := r.configuration(t)
				if diff := cmp.Diff(c.want, nidsOfPeers(&now)); diff != "" {
					t.Error(diff)
				}
			})
		}
		document := func(mode api.Mode) func(r *nodeRun) error {
			return func(r *nodeRun) error {
				_, err := r.document(t, mode, c.document)
				return err
			}
		}
		nothing := func(*nodeRun) error { return nil }
		check("add", net, document(api.ModeAdd))
		check("replace", "", document(api.ModeReplace))
		check("start", c.document, nothing)
		check("start with the net", net+c.document, nothing)
	}
}

// nidsOfPeers returns the NIDs of all peers of a configuration, in its order.
func nidsOfPeers(c *api.Configuration) (nids []string) {
	for _, p := range c.Peers {
		for k := range p.NIs {
			nids = append(nids, p.NIs[k].NID.String())
		}
	}
	return nids
}
