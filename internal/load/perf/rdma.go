package perf

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// UseRDMA makes the nodes use RDMA. It chooses their addresses: the first three IPv4 addresses of network devices that
// an RDMA device serves. It returns ENODEV if this host has no RDMA device, or too few addresses.
func (c *HostConfig) UseRDMA() error {
	return c.useRDMA(new(hostnet.Kernel), hostnet.NewRDMA())
}

func (c *HostConfig) useRDMA(host hostnet.Host, devices *hostnet.RDMA) error {
	var served []string
	for _, d := range devices.Devices() {
		served = append(served, d.Nets...)
	}
	if len(served) == 0 {
		return fmt.Errorf("this host has no RDMA device with a network device: %w", syscall.ENODEV)
	}
	list, err := host.Devices()
	if err != nil {
		return err
	}
	var found []netip.Addr
	for _, d := range list {
		if !slices.Contains(served, d.Name) {
			continue
		}
		for _, p := range d.Addrs {
			if p.Addr().Is4() {
				found = append(found, p.Addr())
			}
		}
	}
	use := []*netip.Addr{&c.Client, &c.Server, &c.Own}
	if len(found) < len(use) {
		return fmt.Errorf("the RDMA devices of this host have %d IPv4 addresses, but the nodes need %d: %w", len(found), len(use), syscall.ENODEV)
	}
	for k, a := range use {
		*a = found[k]
	}
	c.RDMA = true
	return nil
}
