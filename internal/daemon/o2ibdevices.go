package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Mellanox/rdmamap"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/metrics"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// rdmaPause is the time between two looks at the RDMA devices that there are: the kernel
// has no word for one that comes to a network device which is there already.
const rdmaPause = 2 * time.Second

// rdmaDevice is an RDMA device.
type rdmaDevice struct {
	name string
	nets []string // the network devices that it serves
}

func (d rdmaDevice) String() string {
	if len(d.nets) == 0 {
		return d.name
	}
	return d.name + " (" + strings.Join(d.nets, ", ") + ")"
}

// rdmaDevices are the machine's, in order.
func rdmaDevices() []rdmaDevice {
	names := rdmamap.GetRdmaDeviceList()
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	serves := map[string][]string{}
	interfaces, _ := net.Interfaces() // they are for a message
	for k := range interfaces {
		if name, err := rdmamap.GetRdmaDeviceForNetdevice(interfaces[k].Name); err == nil {
			serves[name] = append(serves[name], interfaces[k].Name)
		}
	}
	list := make([]rdmaDevice, len(names))
	for k, name := range names {
		list[k] = rdmaDevice{name, serves[name]}
	}
	return list
}

// rdmaPorts are the ports of the RDMA devices that serve network devices, each once.
func rdmaPorts(netdevs []string) (list []metrics.RDMAPort) {
	seen := map[string]bool{}
	for _, netdev := range netdevs {
		device, err := rdmamap.GetRdmaDeviceForNetdevice(netdev)
		if err != nil || device == "" || seen[device] { // it may just have gone
			continue
		}
		seen[device] = true
		for _, port := range rdmamap.GetPorts(device) {
			list = append(list, metrics.RDMAPort{Device: device, Port: port, Counters: portCounters(device, port)})
		}
	}
	return list
}

// portCounters are those that the port has: not every device has both kinds.
func portCounters(device, port string) map[string]uint64 {
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	all := map[string]uint64{}
	for _, read := range []func(string, int) ([]rdmamap.RdmaStatEntry, error){rdmamap.GetRdmaSysfsStats, rdmamap.GetRdmaSysfsHwStats} {
		entries, _ := read(device, n)
		for _, e := range entries {
			if e.Name != lifespan {
				all[e.Name] = e.Value
			}
		}
	}
	return all
}

// lifespan lies among a port's counters, and says how old they may be.
const lifespan = "lifespan"

// usable finds an NI's NID and network device, and asks whether RDMA can be had there.
func (o *o2ib) usable(ni *config.NI) (nid lnet.NID, device string, err error) {
	p, err := o.open()
	if err != nil {
		return lnet.NID{}, "", o.unusable(ni, "", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	nid, device, err = socklnd.Usable(o.network, ni.Net, ni.Device, ni.NID)
	if err != nil {
		return lnet.NID{}, device, err
	}
	if !nid.IP().Is4() {
		return lnet.NID{}, device, fmt.Errorf("device %s has no IPv4 address, and o2ib carries no other: %w", device, syscall.EADDRNOTAVAIL)
	}
	if err := probe(p, nid.IP()); err != nil {
		return lnet.NID{}, device, o.unusable(ni, device, err)
	}
	return nid, device, nil
}

// unusable says why there is no RDMA for an NI.
func (o *o2ib) unusable(ni *config.NI, device string, err error) error {
	f := api.Fault{
		Code: api.CodeInterface, Errno: -int(syscall.ENODEV), Text: fmt.Sprintf("NI %s cannot be brought up", ni),
		Remedy: "leave it out, or have it wait: lnetdctl import --wait",
	}
	if errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		f.Cause = fmt.Sprintf("device %s has no RDMA", device)
		f.Remedy = o.remedy(device)
	}
	return f.Because(err)
}

// remedy says which devices have RDMA.
func (o *o2ib) remedy(device string) string {
	list := o.devices()
	if len(list) == 0 {
		return fmt.Sprintf("there is no RDMA device: load the driver of the adapter, or try software RDMA: "+
			"modprobe rdma_rxe; rdma link add rxe0 type rxe netdev %s", device)
	}
	all := make([]string, len(list))
	for k := range list {
		all[k] = list[k].String()
	}
	return "take a network device of one of these RDMA devices: " + strings.Join(all, "; ")
}

// probe listens at an address for a moment, on any port: who may not have it, or has no
// device there, learns so.
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

// watch tells of RDMA devices that come, until ctx is done. Those who watch other
// networks tell of the network's.
func (o *o2ib) watch(ctx context.Context, changed func()) error {
	names := func() (list []string) {
		for _, d := range o.devices() {
			list = append(list, d.String())
		}
		return list
	}
	tick := time.NewTicker(rdmaPause)
	defer tick.Stop()
	for before := []string(nil); ; {
		now := names()
		if !slices.Equal(before, now) {
			before = now
			changed()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
