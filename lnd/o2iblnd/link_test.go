package o2iblnd_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// TestLinkCause checks the text that explains why a link is down, for each cause.
//
// o2iblnd 16
func TestLinkCause(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		addrs := []netip.Prefix{netip.MustParsePrefix(address(0) + "/32")}
		up := hostnet.Device{Name: "ib0", Index: 3, Up: true, Addrs: addrs}
		host := hostnettest.New(up)
		s := newStation(t, f, 0, func(c *o2iblnd.Config) { c.Host = host })
		cause := func() string {
			synctest.Wait()
			got := s.i.(lnd.LinkExplainer).LinkCause()
			if down := s.i.Link() == lnd.LinkDown; down != (got != "") {
				t.Errorf("down %v, and the cause is %q", down, got)
			}
			return got
		}
		off := hostnet.Device{Name: "ib0", Index: 3, Off: true, Addrs: addrs}
		renamed := hostnet.Device{Name: "ib1", Index: 3, Up: true, Addrs: addrs}
		for _, c := range []struct {
			dev  hostnet.Device
			want string
		}{
			{up, ""}, {off, "ib0 is switched off: ip link set ib0 up"}, {renamed, ""}, {up, ""},
		} {
			host.Set(c.dev)
			if got := cause(); got != c.want || c.want == "" && s.i.Device() != c.dev.Name {
				t.Errorf("%+v: %q on %s, want %q", c.dev, got, s.i.Device(), c.want)
			}
		}
		port := s.host.Device(0).Port(1)
		port.SetUp(false)
		if got := cause(); !strings.HasPrefix(got, "port 1 of the RDMA device of ib0 is not active") {
			t.Errorf("a port that is down: %q", got)
		}
		port.SetUp(true)
		synctest.Wait()
		s.host.Device(0).Remove()
		time.Sleep(3 * time.Second)
		if got := cause(); !strings.HasPrefix(got, "the RDMA device of ib0 was removed") {
			t.Errorf("a device that was removed: %q", got)
		}
		s.close()
	})
}
