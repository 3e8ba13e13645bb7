package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// A discovered peer loses individual NIDs when a list with them is deleted. It keeps its primary
// NID when a list configures it, wherever in the list that NID is.
//
// lnetctl 11 (3)-(4), 11 (9)
func TestListsOfAPeerThatIsNotConfigured(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	first, others := nid(t, "1.1.1.1@tcp"), []lnet.NID{nid(t, "2.2.2.2@tcp"), nid(t, "3.3.3.3@tcp")}
	if err := r.node.ConfigurePeer(t.Context(), first, others, discovery.ConfigureOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.node.SetPeerState(t.Context(), first, discovery.MultiRail|discovery.NIDsUpToDate); err != nil {
		t.Fatal(err)
	}
	has := func(want string) {
		t.Helper()
		if diff := cmp.Diff([]string{want}, peerTexts(r.peers(t))); diff != "" {
			t.Error(diff)
		}
	}
	take := func(mode api.Mode, text string) (said []string) {
		t.Helper()
		done, err := r.document(t, mode, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range done.Warnings {
			said = append(said, w.Text)
		}
		return said
	}
	said := take(api.ModeDelete, "peers: [{nids: [2.2.2.2@tcp, 9.9.9.9@tcp]}]")
	if diff := cmp.Diff([]string{
		"NID 1, 9.9.9.9@tcp, does not belong to any peer; nothing is deleted",
		"the peer 1.1.1.1@tcp is not configured: the deleted NIDs come back when it is discovered again",
	}, said); diff != "" {
		t.Error(diff)
	}
	has("1.1.1.1@tcp: 1.1.1.1@tcp 3.3.3.3@tcp multi-rail")
	if text := "removed a NID that discovery had found"; !strings.Contains(r.log.String(), text) {
		t.Errorf("the log does not say %q: %s", text, r.log)
	}
	take(api.ModeAdd, "peers: [{nids: [3.3.3.3@tcp, 4.4.4.4@tcp, 1.1.1.1@tcp]}]")
	has("1.1.1.1@tcp: 1.1.1.1@tcp 3.3.3.3@tcp 4.4.4.4@tcp multi-rail configured")
	take(api.ModeAdd, "peers: [{nids: [4.4.4.4@tcp, 3.3.3.3@tcp]}]")
	has("4.4.4.4@tcp: 4.4.4.4@tcp 3.3.3.3@tcp multi-rail configured")
	_, named, err := r.Described(t.Context(), api.Document{Name: "d.yaml", Text: "peers: [{nids: [3.3.3.3@tcp, 4.4.4.4@tcp, 5.5.5.5@tcp]}]"})
	var shown []lnet.NID
	for p, err := range r.PeersOf(t.Context(), named) {
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, p.Primary)
	}
	if err != nil || fmt.Sprint(shown) != "[4.4.4.4@tcp]" {
		t.Errorf("%v, %v", shown, err)
	}
	take(api.ModeDelete, "peers: [{nids: [3.3.3.3@tcp, 4.4.4.4@tcp]}]")
	if left := r.peers(t); len(left) > 0 {
		t.Error(peerTexts(left))
	}
}
