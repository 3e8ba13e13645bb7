package statuspage

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// /readyz fails while no NI except 0@lo is up, and names the reasons. Both fail if the node is stuck.
func TestHealth(t *testing.T) {
	lo := api.Net{Net: lnet.LoopbackNID.Net(), NIs: []api.NI{{NID: lnet.LoopbackNID, Status: "up"}}}
	up := api.NI{NID: nid(t, "10.0.0.1@tcp"), Status: "up"}
	down := api.NI{NID: nid(t, "10.0.0.2@tcp"), Status: "down", Reason: "link down"}
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	waiting := []api.WaitingNI{{Net: tcp, Interface: "eth7", Cause: "no such interface"}, {Net: tcp, NID: nid(t, "10.0.0.9@tcp"), Cause: "no such address"}}
	many := &fakeSource{nets: []api.Net{lo, {Net: tcp}}}
	for k := range 20 {
		many.nets[1].NIs = append(many.nets[1].NIs, api.NI{NID: nid(t, fmt.Sprintf("10.0.0.%d@tcp", k)), Status: "down"})
	}
	for _, tt := range []struct {
		name   string
		source *fakeSource
		path   string
		status int
		want   string
	}{
		{"up", &fakeSource{nets: []api.Net{lo, {Net: tcp, NIs: []api.NI{down, up}}}}, "/readyz", 200, "ok\n"},
		{"only 0@lo", &fakeSource{nets: []api.Net{lo}}, "/readyz", 503, "no NI is up, because none is configured\n"},
		{"down", &fakeSource{nets: []api.Net{lo, {Net: tcp, NIs: []api.NI{down}}}}, "/readyz", 503, "no NI is up: 10.0.0.2@tcp: link down\n"},
		{"waiting", &fakeSource{nets: []api.Net{lo}, waiting: waiting}, "/readyz", 503, "no NI is up: tcp(eth7) waits: no such interface; 10.0.0.9@tcp waits: no such address\n"},
		{
			"many", many, "/readyz", 503,
			"no NI is up: 10.0.0.0@tcp: down; 10.0.0.1@tcp: down; 10.0.0.2@tcp: down; 10.0.0.3@tcp: down; 10.0.0.4@tcp: down; 10.0.0.5@tcp: down; 10.0.0.6@tcp: down; 10.0.0.7@tcp: down; and 12 others\n",
		},
		{"LNet is down", &fakeSource{down: true}, "/readyz", 503, "LNet is not configured\n"},
		{"alive without an NI", &fakeSource{down: true}, "/healthz", 200, "ok\n"},
		{"stuck", &fakeSource{stuck: "monitor"}, "/healthz", 503, "the node is stuck: monitor\n"},
		{"stuck, and an NI is up", &fakeSource{stuck: "monitor", nets: []api.Net{{Net: tcp, NIs: []api.NI{up}}}}, "/readyz", 503, "the node is stuck: monitor\n"},
	} {
		w := get(t, Health(tt.source), tt.path)
		if w.Code != tt.status || w.Body.String() != tt.want {
			t.Errorf("%s: %d, %q", tt.name, w.Code, w.Body)
		}
	}
	if w := get(t, Health(&fakeSource{}), "/"); w.Code != http.StatusNotFound {
		t.Errorf("/ without the page: %d", w.Code)
	}
}
