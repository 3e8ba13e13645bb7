package daemon

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/lnetd/lnetd/internal/config"
)

// hostInterfaces returns the host's network interfaces in their order.
func hostInterfaces() ([]config.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	out := make([]config.Interface, 0, len(all))
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		c := config.Interface{Name: i.Name, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				c.Addrs = append(c.Addrs, p.Addr())
			}
		}
		out = append(out, c)
	}
	return out, nil
}
