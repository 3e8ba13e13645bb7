package conformance

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/events"
	"github.com/lnetd/lnetd/lnd/boundedlog"
)

// TestKindsOfEvents: given the messages that lnetd logs without a subject, whose texts alone show the kinds of their events,
// then those of the kind lnetd are exactly the ones in aboutLnetd.
func TestKindsOfEvents(t *testing.T) {
	var got []string
	for _, text := range slices.Sorted(maps.Keys(lnetdMessages(t).bare)) {
		if events.KindOf(&boundedlog.Line{Text: text}) == api.EventLnetd {
			got = append(got, text)
		}
	}
	if diff := cmp.Diff(aboutLnetd, got); diff != "" {
		t.Errorf("events of the kind lnetd (-intended +code); add to internal/lnetd/events/kind.go what is of another kind:\n%s", diff)
	}
}

// aboutLnetd are the texts of events that are about lnetd itself or its host.
var aboutLnetd = []string{
	"WATCHDOG_USEC is invalid; the watchdog of systemd is not notified",
	"a metrics request failed",
	"cannot encode a reply of the control interface; its client gets status 500",
	"cannot notify systemd",
	"cannot read the NUMA layout: all interfaces count as equally near",
	"cannot register memory with a device; the data will be copied",
	"closing a kept socket that is no longer used",
	"ignoring configured CPU partitions that this host does not have",
	"ready",
	"received a signal",
	"serving metrics",
	"stopping",
	"systemd does not keep a socket of lnetd; programs cannot connect to it while lnetd restarts",
	"systemd passed sockets that lnetd does not use; connections to them are not answered",
	"the node is stuck; this is a bug in lnetd",
	"the stuck node makes progress again",
	"using the control socket from systemd",
}
