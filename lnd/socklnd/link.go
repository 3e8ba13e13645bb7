package socklnd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// watchLink keeps the link state up to date. The link is down while the device is not operational or
// has lost the interface's address (socklnd 17). Connections stay open.
func (i *Interface) watchLink() {
	defer i.group.Done()
	err := i.driver.config.Network.Watch(i.ctx, i.checkLink)
	if err != nil && i.ctx.Err() == nil {
		i.log.Warn("link state is not watched", "device", i.Device(), "cause", err)
	}
}

// checkLink examines the device and reports a change to the node. Only one call runs at a time.
func (i *Interface) checkLink() {
	dev, err := i.findDevice()
	cause := i.linkCause(dev, err)
	state := lnd.LinkUp
	if cause != "" {
		state = lnd.LinkDown
	} else {
		i.follow(dev)
	}
	before := *i.downCause.Swap(&cause)
	if lnd.LinkState(i.link.Swap(uint32(state))) == state {
		if cause != before {
			i.log.Tell(boundedlog.Line{Level: slog.LevelInfo, Text: "link is still down", Of: boundedlog.AboutNI(i.nid)}, slog.String("cause", cause))
		}
		return
	}
	if state == lnd.LinkUp {
		i.LinkBack(lnet.NID{}) // timeouts that began while the link was down start over
	}
	i.log.Debug("link state changed", "device", i.Device(), "state", state.String()) // the node logs it
	i.upper.LinkChanged(state)
}

// LinkCause implements lnd.LinkExplainer.
func (i *Interface) LinkCause() string { return *i.downCause.Load() }

// findDevice finds the device by its index, which does not change when the device is renamed. (Kernels
// leave the NI down until it is configured again; decisions 98.) If the device is gone or has lost the
// address, a device with the same name and the address replaces it.
func (i *Interface) findDevice() (Device, error) {
	network := i.driver.config.Network
	at, ok := network.(Indexed)
	index := int(i.index.Load())
	if !ok || index == 0 {
		return network.Device(i.Device(), lnet.NID{})
	}
	dev, err := at.DeviceAt(index)
	if err == nil && dev.Has(i.address) {
		return dev, nil
	}
	if other, missing := network.Device(i.Device(), lnet.NID{}); missing == nil && other.Has(i.address) {
		return other, nil
	}
	return dev, err
}

// follow records the index and the name of the interface's current device.
func (i *Interface) follow(dev Device) {
	i.index.Store(int64(dev.Index))
	old := i.Device()
	if dev.Name == old || strings.Contains(old, ":") { // an alias is the label of an address
		return
	}
	i.device.Store(&dev.Name)
	i.log.Tell(boundedlog.Line{Level: slog.LevelInfo, Text: "device was renamed", Of: boundedlog.AboutNI(i.nid)},
		slog.String("from", old), slog.String("to", dev.Name))
}

// linkCause returns why the interface is down and how to fix it. dev and err are the result of
// findDevice. It is empty if the interface is up.
func (i *Interface) linkCause(dev Device, err error) string {
	name := i.Device()
	switch {
	case errors.Is(err, ErrDeviceMoved):
		return fmt.Sprintf("%s was moved to another network namespace: move it back, or run lnetd there", name)
	case err != nil && i.index.Load() == 0:
		return fmt.Sprintf("%s is missing (%v): restore it", name, err)
	case err != nil:
		return fmt.Sprintf("%s was removed: restore it, or delete the NI", name)
	case dev.Off:
		return fmt.Sprintf("%s is switched off: ip link set %s up", dev.Name, dev.Name)
	case dev.NoCarrier:
		return fmt.Sprintf("%s has no carrier: check its cable and the port at the other end", dev.Name)
	case !dev.Up:
		return fmt.Sprintf("%s is not operational: see ip -d link show %s", dev.Name, dev.Name)
	case !dev.Has(i.address):
		return fmt.Sprintf("%s has lost the address %s: add it again (ip address add), or delete the NI", dev.Name, i.address)
	}
	return ""
}
