package socklnd

import (
	"net/netip"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// watchLink keeps the link state: it is down while the device is not
// operational or has lost the interface's address (socklnd 17). Connections
// stay.
func (i *Interface) watchLink() {
	defer i.group.Done()
	err := i.driver.config.Network.Watch(i.ctx, i.checkLink)
	if err != nil && i.ctx.Err() == nil {
		i.log.Warn("link state is not watched", "device", i.device, "cause", err)
	}
}

// checkLink looks at the device and tells the node of a change.
func (i *Interface) checkLink() {
	state := lnd.LinkDown
	dev, err := i.driver.config.Network.Device(i.device, lnet.NID{})
	if err == nil {
		state = linkOf(dev, i.address)
	}
	if lnd.LinkState(i.link.Swap(uint32(state))) == state {
		return
	}
	if state == lnd.LinkUp {
		i.linkUps.Add(1) // nothing is closed for what happened while it was away
	}
	i.log.Debug("link state changed", "device", i.device, "state", state.String()) // the node tells of it
	i.upper.LinkChanged(state)
}

// linkOf is the link state of an interface with an address on a device.
func linkOf(dev Device, addr netip.Addr) lnd.LinkState {
	if dev.Up && dev.Has(addr) {
		return lnd.LinkUp
	}
	return lnd.LinkDown
}
