package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// The answer to a document decodes to the value it was encoded from, and needs few bytes for each peer.
func TestConfiguredPeersTakeLittleRoom(t *testing.T) {
	const peers, most = 1000, 100 // bytes of each
	c := api.Configuration{
		Nets: []api.Net{{Net: lnet.MakeNet(lnet.TypeTCP, 0)}}, Routes: []api.Route{}, UDSP: []api.UDSPRule{},
		Selection: []api.SelectionRule{}, Routing: api.Routing{CPTs: []api.Pools{}}, Lnetd: map[string]any{"networks": "tcp"},
	}
	for k := range peers {
		nid, err := lnet.ParseNID(fmt.Sprintf("10.0.%d.%d@tcp", k/250, k%250+1))
		if err != nil {
			t.Fatal(err)
		}
		c.Peers = append(c.Peers, api.ConfiguredPeer{Primary: nid, MultiRail: true, NIs: []api.ConfiguredPeerNI{{NID: nid}}})
	}
	none := c
	none.Peers = []api.ConfiguredPeer{}
	for _, v := range []any{c, api.ConfigurationChanged{
		Commands: []string{"peer add"}, Warnings: []api.Problem{}, Restart: []string{"x"}, Before: none, After: c,
	}} {
		body, fault := encode(t.Context(), v)
		if fault != nil {
			t.Fatal(fault)
		}
		b := body.(encoded)
		if len(b) > most*peers {
			t.Errorf("%T: %d bytes for %d peers", v, len(b), peers)
		}
		got := reflect.New(reflect.TypeOf(v))
		if err := json.Unmarshal(b, got.Interface()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, got.Elem().Interface(), cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
			t.Errorf("%T: %s", v, d)
		}
	}
}
