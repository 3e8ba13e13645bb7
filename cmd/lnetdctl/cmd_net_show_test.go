package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// If an NI is down, "net show -v" says why, in a line that is not printed without -v or for an NI
// that is up.
//
// lnet-core 12.1
func TestNetShowSaysWhyAnNIIsDown(t *testing.T) {
	for _, tt := range []struct {
		reason string
		level  int64
		want   bool
	}{{"", 4, false}, {"link down", 0, false}, {"link down", 1, true}, {"link down, health is 0", 4, true}} {
		nid, err := lnet.ParseNID("10.0.0.1@tcp")
		if err != nil {
			t.Fatal(err)
		}
		ni := api.NI{NID: nid, Status: "down", Reason: tt.reason}
		var b bytes.Buffer
		if err := wide.write(&b, netDocument([]api.Net{{Net: nid.Net(), NIs: []api.NI{ni}}}, tt.level)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "status: down\n            status reason: "+tt.reason+"\n"); got != tt.want {
			t.Errorf("%q at level %d:\n%s", tt.reason, tt.level, b.String())
		}
	}
}
