package node_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// Given a peer with three NIDs that is configured with four, of which it has one, when it
// is discovered, then one line of the bounded log lists all missing NIDs, and one lists
// all NIDs that the peer has in addition to the configuration.
//
// lnetctl 11 (9)
// discovery 11.2
func TestDifferencesAreLogged(t *testing.T) {
	for _, mode := range []discovery.Mode{discovery.On, discovery.Verify} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTroubled(t, 3, 1)
				p := w.node.Admin().Parameters()
				p.Discovery = mode
				if err := w.node.Admin().SetParameters(p); err != nil {
					t.Fatal(err)
				}
				first := troubledNID(0, 1)
				others := []lnet.NID{parseNID(t, "10.0.0.77@tcp"), parseNID(t, "10.0.0.78@tcp"), parseNID(t, "10.1.0.80@tcp1")}
				if err := w.node.Admin().ConfigurePeer(t.Context(), first, others, discovery.ConfigureOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.node.ForceDiscover(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{
					`msg="peer reports NIDs that its configuration lacks; they are not used" peer=10.0.0.2@tcp nids="[10.1.0.2@tcp1 10.2.0.2@tcp2]"`,
					`msg="peer does not report all NIDs of its configuration; they stay configured" peer=10.0.0.2@tcp nids="[10.0.0.77@tcp 10.0.0.78@tcp 10.1.0.80@tcp1]"`,
				} {
					if !slices.ContainsFunc(strings.Split(w.log.String(), "\n"), func(l string) bool { return strings.HasSuffix(l, want) }) {
						t.Errorf("the log has no line %s:\n%s", want, w.log)
					}
				}
			})
		})
	}
}
