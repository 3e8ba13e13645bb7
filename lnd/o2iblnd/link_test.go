package o2iblnd_test

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// oneDevice is a host with one network device, which changes.
type oneDevice struct {
	mu      sync.Mutex
	dev     *o2iblnd.NetDevice // nil: it was removed
	changed chan struct{}
}

func (n *oneDevice) Device(name string, nid lnet.NID) (o2iblnd.NetDevice, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	has := func() bool { return len(n.dev.Addrs) == 1 && n.dev.Addrs[0] == nid.IP() }
	if n.dev == nil || name != "" && name != n.dev.Name || name == "" && !has() {
		return o2iblnd.NetDevice{}, syscall.ENODEV
	}
	return *n.dev, nil
}

func (n *oneDevice) Watch(ctx context.Context, changed func()) error {
	for {
		select {
		case <-n.changed:
			changed()
		case <-ctx.Done():
			return nil
		}
	}
}

// is puts the device into the given state.
func (n *oneDevice) is(d *o2iblnd.NetDevice) {
	n.mu.Lock()
	n.dev = d
	n.mu.Unlock()
	n.changed <- struct{}{}
	synctest.Wait()
}

// The reason of a link that is down has a different text for each cause.
//
// o2iblnd 16
func TestLinkCause(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		addrs := []netip.Addr{netip.MustParseAddr(address(0))}
		up := &o2iblnd.NetDevice{Name: "ib0", Up: true, Addrs: addrs}
		network := &oneDevice{dev: up, changed: make(chan struct{})}
		s := newStation(t, f, 0, func(c *o2iblnd.Config) { c.Network = network })
		cause := func() string {
			synctest.Wait()
			got := s.i.(lnd.LinkExplainer).LinkCause()
			if down := s.i.Link() == lnd.LinkDown; down != (got != "") {
				t.Errorf("down %v, and the cause is %q", down, got)
			}
			return got
		}
		for _, c := range []struct {
			dev  *o2iblnd.NetDevice
			want string
		}{
			{up, ""},
			{&o2iblnd.NetDevice{Name: "ib0", Off: true, Addrs: addrs}, "ib0 is switched off: ip link set ib0 up"},
			{&o2iblnd.NetDevice{Name: "ib0", NoCarrier: true, Addrs: addrs}, "ib0 has no carrier"},
			{&o2iblnd.NetDevice{Name: "ib0", Addrs: addrs}, "ib0 is not operational"},
			{&o2iblnd.NetDevice{Name: "ib0", Up: true}, "ib0 has lost the address " + addrs[0].String()},
			{&o2iblnd.NetDevice{Name: "fast0", Up: true, Addrs: addrs}, "ib0 was renamed, fast0 has its address now"},
			{nil, "ib0 is missing"},
			{up, ""},
		} {
			network.is(c.dev)
			if got := cause(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%+v: %q, want %q", c.dev, got, c.want)
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
