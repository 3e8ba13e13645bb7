package main

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// The reason to avoid a NID is shown from level 1 on, and only if there is a reason, because
// lnetctl has no such line.
func TestTroubleOfAPeerNI(t *testing.T) {
	const stalled = "not answering since 2026-01-02T03:04:05Z"
	for _, c := range []struct {
		trouble string
		level   int64
		shown   bool
	}{{"", 4, false}, {stalled, 0, false}, {stalled, 1, true}, {"link down", 4, true}} {
		m := peerNIDocument(&api.PeerNI{State: "up", Trouble: c.trouble}, c.level)
		at := slices.IndexFunc(m, func(e entry) bool { return e.key == "trouble" })
		if at >= 0 != c.shown || c.shown && m[at].value != text(c.trouble) {
			t.Errorf("%q at level %d: %v", c.trouble, c.level, m)
		}
	}
}
