package perf

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
)

// The nodes get addresses of network devices that an RDMA device serves. Without a device, or with too few
// addresses, the error says what is missing, and nothing changes.
func TestUseRDMA(t *testing.T) {
	device := func(name string, addresses ...string) hostnet.Device {
		d := hostnet.Device{Name: name, Up: true}
		for _, a := range addresses {
			d.Addrs = append(d.Addrs, netip.MustParsePrefix(a))
		}
		return d
	}
	served := t.TempDir()
	port := filepath.Join(served, "rxe0/ports/1/gid_attrs/ndevs")
	if err := os.MkdirAll(port, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(port, "0"), []byte("eth1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		rdma string
		eth1 []string
		want string // text of the error
	}{
		{t.TempDir(), []string{"10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"}, "no RDMA device"},
		{served, []string{"10.0.0.2/24", "fe80::1/64", "10.0.0.3/24"}, "have 2 IPv4 addresses, but the nodes need 3"},
		{served, []string{"10.0.0.2/24", "fe80::1/64", "10.0.0.3/24", "10.0.0.4/24", "10.0.0.5/24"}, ""},
	} {
		c := DefaultHostConfig("")
		before := c
		err := c.useRDMA(hostnettest.New(device("eth0", "10.0.0.1/24"), device("eth1", x.eth1...)), hostnet.RDMAAt(x.rdma))
		if x.want != "" {
			if !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), x.want) || c.RDMA || c.Client != before.Client {
				t.Errorf("%v, %+v; want %q", err, c, x.want)
			}
			continue
		}
		if err != nil || !c.RDMA || c.Client.String() != "10.0.0.2" || c.Server.String() != "10.0.0.3" || c.Own.String() != "10.0.0.4" {
			t.Errorf("%v, %+v", err, c)
		}
	}
	c := DefaultHostConfig("")
	host := hostnettest.New()
	host.Fail(syscall.EIO)
	if err := c.useRDMA(host, hostnet.RDMAAt(served)); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
}
