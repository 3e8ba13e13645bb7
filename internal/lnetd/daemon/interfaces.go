package daemon

import (
	"fmt"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnd/hostnet"
)

// hostInterfaces returns the network interfaces of this host in the host's order, without
// aliases such as "eth0:1".
func hostInterfaces() ([]config.Interface, error) {
	var host hostnet.Kernel
	all, err := host.Devices()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var out []config.Interface
	for k := range all {
		d := &all[k]
		if d.IsAlias() {
			continue
		}
		i := config.Interface{Name: d.Name, Up: !d.Off, Loopback: d.Loopback}
		for _, p := range d.Addrs {
			i.Addrs = append(i.Addrs, p.Addr())
		}
		out = append(out, i)
	}
	return out, nil
}
