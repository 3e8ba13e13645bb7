package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// usable returns the NID and the network device that the NI would have now. It returns an error if the
// device has no IPv4 address, or if RDMA is not available on it.
func (o *o2ib) usable(ni *config.NI) (nid lnet.NID, device string, err error) {
	p, err := o.open()
	if err != nil {
		return lnet.NID{}, "", o.unusable(ni, "", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	nid, device, err = hostnet.Usable(o.host, ni.Net, ni.Device, ni.NID)
	if err != nil {
		return lnet.NID{}, device, err
	}
	if !nid.IP().Is4() {
		return lnet.NID{}, device, fmt.Errorf("device %s has no IPv4 address, which o2ib needs: %w", device, syscall.EADDRNOTAVAIL)
	}
	if err := probe(p, nid.IP()); err != nil {
		return lnet.NID{}, device, o.unusable(ni, device, err)
	}
	return nid, device, nil
}

// unusable returns the error for an operator if RDMA is not available for the NI on device because of
// err.
func (o *o2ib) unusable(ni *config.NI, device string, err error) error {
	if errors.Is(err, verbs.ErrNotBuilt) {
		return noDriver(ni)
	}
	f := api.Fault{
		Code: api.CodeInterface, Errno: -int(syscall.ENODEV), Text: fmt.Sprintf("NI %s cannot be brought up", ni),
		Remedy: "remove it, or let it wait: lnetdctl import --wait",
	}
	if errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		f.Cause = fmt.Sprintf("device %s does not support RDMA", device)
		f.Remedy = o.remedy(device)
	}
	return f.Because(err)
}

// remedy returns what an operator can do if device has no RDMA: it names the RDMA devices of the host
// or, if the host has no such device, says how to create one.
func (o *o2ib) remedy(device string) string {
	list := o.rdma.Devices()
	if len(list) == 0 {
		return fmt.Sprintf("this host has no RDMA device: load the driver of the adapter, or use software RDMA: "+
			"modprobe rdma_rxe; rdma link add rxe0 type rxe netdev %s", device)
	}
	all := make([]string, len(list))
	for k := range list {
		all[k] = list[k].String()
	}
	return "use a network device of one of these RDMA devices: " + strings.Join(all, "; ")
}

// probe listens briefly at an address, on any port. It returns an error if the process lacks the
// right to do so, or if no RDMA device has the address.
func probe(p verbs.Provider, at netip.Addr) (err error) {
	c, err := p.OpenChannel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id, err := c.Listen(netip.AddrPortFrom(at, 0), 1)
	if err != nil {
		return err
	}
	id.Destroy()
	return nil
}

// watch blocks until ctx is done. After each event that may have changed a network device or an RDMA
// device, it opens and closes RDMA, so that removed devices are released (see verbs.Provider), and
// then calls changed.
func (o *o2ib) watch(ctx context.Context, changed func()) error {
	return o.host.Watch(ctx, func() {
		if p, err := o.open(); err == nil {
			_ = p.Close()
		}
		changed()
	})
}
