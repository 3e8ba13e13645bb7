package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// waitingNIs finds out what the NIs that are not up yet wait for, whether lnetd runs or not.
func waitingNIs(f *Facts) (found []Finding) {
	var waiting []api.WaitingNI
	switch {
	case f.Node != nil:
		waiting = f.Node.Nets.Waiting
	case f.Start != nil && f.Start.Check != nil:
		waiting = f.Start.Check.Waiting
	}
	for k := range waiting {
		w := &waiting[k]
		found = append(found, waits(f.Host, w))
	}
	return found
}

// waits returns the finding about an NI that waits for its interface.
func waits(h *Host, w *api.WaitingNI) Finding {
	name := fmt.Sprintf("%s(%s)", w.Net, w.Interface)
	if w.Interface == "" {
		name = w.NID.String()
	}
	address := w.NID.IP()
	if h == nil {
		return find(NIWaits, name, w.Cause, "")
	}
	i := h.of(w.Interface, address)
	switch {
	case w.Interface == "" && !address.IsValid():
		return find(NIWaits, name, w.Cause, "")
	case i == nil && w.Interface == "":
		return find(AddressMissing, name, "no interface has the address "+address.String(), "")
	case i == nil:
		if other := h.of("", address); other != nil {
			return renamed(name, w.Interface, other, address)
		}
		return find(InterfaceMissing, name, w.Cause, "")
	}
	if found, ok := link(name, i, address); ok {
		return found
	}
	return find(NIWaits, name, w.Cause, "")
}

func renamed(ni, device string, other *Interface, address netip.Addr) Finding {
	return find(InterfaceRenamed, ni, fmt.Sprintf("there is no %s, and %s has the address %s", device, other.Name, address), "")
}

// link returns a finding if the interface of an NI is off, has no carrier or does not have the address. An invalid
// address stands for any.
func link(ni string, i *Interface, address netip.Addr) (_ Finding, ok bool) {
	switch {
	case !i.On:
		return find(InterfaceOff, ni, i.Name+" is switched off", "ip link set "+i.Name+" up"), true
	case !i.Carrier:
		return find(NoCarrier, ni, i.Name+" has no carrier", ""), true
	case !address.IsValid() && len(i.global()) == 0:
		return find(AddressMissing, ni, i.Name+" has no address", "ip address add ADDRESS/LENGTH dev "+i.Name), true
	case address.IsValid() && !i.has(address):
		return find(AddressMissing, ni, fmt.Sprintf("%s does not have the address %s; its addresses: %s", i.Name, address, i.list()),
			fmt.Sprintf("ip address add %s/LENGTH dev %s", address, i.Name)), true
	}
	return Finding{}, false
}

// downNIs finds out why NIs that were up are down.
func downNIs(f *Facts) (found []Finding) {
	for _, n := range f.nis() {
		if n.NID.IsLoopback() || n.Status == "up" {
			continue
		}
		name := n.NID.String()
		if device := f.device(n); device != nil {
			if one, ok := link(name, device, n.NID.IP()); ok {
				found = append(found, one)
				continue
			}
		} else if f.Host != nil && len(n.Interfaces) > 0 {
			if other := f.Host.of("", n.NID.IP()); other != nil {
				found = append(found, renamed(name, n.Interfaces[0], other, n.NID.IP()))
			} else {
				found = append(found, find(InterfaceMissing, name, fmt.Sprintf("there is no %s", n.Interfaces[0]), ""))
			}
			continue
		}
		found = append(found, find(NIDown, name, cmp.Or(n.Reason, "lnetd reports no reason"), ""))
	}
	return found
}

func unhealthyNIs(f *Facts) (found []Finding) {
	for _, n := range f.nis() {
		if n.NID.IsLoopback() || n.Status != "up" || n.Health.Value >= api.MaxHealth {
			continue
		}
		h := &n.Health
		found = append(found, find(NIUnhealthy, n.NID.String(),
			fmt.Sprintf("health %d of %d; %d timeouts, %d errors, %d dropped, %d aborted, %d without route",
				h.Value, api.MaxHealth, h.Timeouts, h.Errors, h.Dropped, h.Aborted, h.NoRoute), ""))
	}
	return found
}

// addresses finds addresses of NIs that are on several interfaces.
func addresses(f *Facts) (found []Finding) {
	if f.Host == nil {
		return nil
	}
	for _, n := range f.nis() {
		device := f.device(n)
		if device == nil || !slices.Contains(device.Addrs, n.NID.IP()) {
			continue
		}
		own := device.Name
		for k := range f.Host.Interfaces {
			i := &f.Host.Interfaces[k]
			if i.Name != own && slices.Contains(i.Addrs, n.NID.IP()) {
				found = append(found, find(AddressTwice, n.NID.String(), fmt.Sprintf("%s and %s both have %s", own, i.Name, n.NID.IP()),
					fmt.Sprintf("ip address del %s/LENGTH dev %s", n.NID.IP(), i.Name)))
			}
		}
	}
	return found
}

// claimed finds addresses of NIs that other hosts have, too.
func claimed(f *Facts) (found []Finding) {
	if f.Host == nil {
		return nil
	}
	for _, c := range f.Host.Claims {
		found = append(found, find(AddressClaimed, c.Address.String(), fmt.Sprintf("the host with the hardware address %s on %s has it too", c.Hardware, c.Interface), ""))
	}
	return found
}

// timeouts compares the timeouts of NIs with that of LNet.
func timeouts(f *Facts) (found []Finding) {
	for _, n := range f.nis() {
		for _, o := range n.LND {
			if longest := f.Node.Globals.Values["transaction_timeout"]; o.Name == "timeout" && longest > 0 && o.Value > longest {
				found = append(found, find(TimeoutLong, n.NID.String(),
					fmt.Sprintf("timeout %d s, and transaction_timeout %d s", o.Value, longest), ""))
			}
		}
	}
	return found
}

// anyNI checks that the node can reach other hosts at all.
func anyNI(f *Facts) []Finding {
	if f.Node == nil || f.Node.Down {
		return nil
	}
	up, onLoopback, all := 0, 0, 0
	for _, n := range f.nis() {
		switch {
		case n.NID.IsLoopback():
			continue
		case n.NID.IP().IsValid() && n.NID.IP().IsLoopback():
			onLoopback++
		}
		all++
		if n.Status == "up" {
			up++
		}
	}
	switch {
	case up == 0:
		return []Finding{find(NoNIUp, "lnetd", fmt.Sprintf("%d NIs are down, and %d wait for their interface", all, len(f.Node.Nets.Waiting)), "")}
	case onLoopback == all:
		return []Finding{find(OnlyLoopback, "lnetd", fmt.Sprintf("%d of %d NIs have loopback addresses", onLoopback, all), "")}
	}
	return nil
}

// nis returns the NIs of the node.
func (f *Facts) nis() (all []*api.NI) {
	if f.Node == nil {
		return nil
	}
	for k := range f.Node.Nets.Nets {
		n := &f.Node.Nets.Nets[k]
		for i := range n.NIs {
			all = append(all, &n.NIs[i])
		}
	}
	return all
}

// device returns the interface of an NI, or nil if it does not exist or is not known.
func (f *Facts) device(n *api.NI) *Interface {
	if f.Host == nil || len(n.Interfaces) == 0 {
		return nil
	}
	return f.Host.of(n.Interfaces[0], netip.Addr{})
}

// of returns the interface with the name (of an alias: with the name before the colon) or, without a name, the one
// with the address. It returns nil if there is none.
func (h *Host) of(name string, address netip.Addr) *Interface {
	name, _, _ = strings.Cut(name, ":")
	for k := range h.Interfaces {
		i := &h.Interfaces[k]
		if name != "" && i.Name == name || name == "" && address.IsValid() && i.has(address) {
			return i
		}
	}
	return nil
}

// has reports whether the interface has the address. The loopback interface has all of 127.0.0.0/8.
func (i *Interface) has(a netip.Addr) bool {
	return slices.Contains(i.Addrs, a) || i.Loopback && a.Is4() && a.IsLoopback()
}

// global returns the addresses that are not link-local.
func (i *Interface) global() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(i.Addrs), netip.Addr.IsLinkLocalUnicast)
}

func (i *Interface) list() string {
	if len(i.Addrs) == 0 {
		return "none"
	}
	var all []string
	for _, a := range i.Addrs {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}
