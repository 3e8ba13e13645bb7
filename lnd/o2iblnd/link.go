package o2iblnd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// bindPeriod is how often an interface whose device is gone looks for one (o2iblnd 16).
const bindPeriod = time.Second

// watchLink checks the link whenever a network device has changed.
func (i *Interface) watchLink() {
	defer i.group.Done()
	err := i.driver.config.Network.Watch(i.ctx, i.checkLink)
	if err != nil && i.ctx.Err() == nil {
		i.log.Warn("link state is not watched", "device", i.device, "cause", err)
	}
}

// checkLink makes the keeper check the link.
func (i *Interface) checkLink() { i.keeper.do(task{kind: taskLink}) }

// lookAtLink reports a change of the link state to the node. Connections stay open.
func (i *Interface) lookAtLink() {
	cause := i.causeNow()
	state := stateFor(cause)
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
	i.log.Debug("link state changed", "device", i.device, "state", state.String()) // the node logs it
	i.upper.LinkChanged(state)
}

// LinkCause implements lnd.LinkExplainer.
func (i *Interface) LinkCause() string { return *i.downCause.Load() }

// stateFor returns the link state for a result of causeNow.
func stateFor(cause string) lnd.LinkState {
	if cause == "" {
		return lnd.LinkUp
	}
	return lnd.LinkDown
}

// causeNow returns why the link is down and how to fix it: there is no RDMA device, its port is not
// active, or the network device is not operational or has lost the address (o2iblnd 16). It is empty if
// the link is up.
func (i *Interface) causeNow() string {
	if cause := i.netdevCause(); cause != "" {
		return cause
	}
	name := cmp.Or(i.device, i.nid.String())
	i.mu.RLock()
	l := i.bound
	i.mu.RUnlock()
	if l == nil || l.dev.gone.Load() {
		return fmt.Sprintf("the RDMA device of %s was removed: restore it (see rdma link), or delete the NI", name)
	}
	a, err := l.dev.v.Port(l.port)
	switch {
	case err != nil:
		return fmt.Sprintf("port %d of the RDMA device of %s cannot be queried (%v): see rdma link", l.port, name, err)
	case a.State != verbs.PortActive:
		return fmt.Sprintf("port %d of the RDMA device of %s is not active: see rdma link, check its cable and the port at the other end", l.port, name)
	}
	return ""
}

// netdevCause is causeNow for the network device.
func (i *Interface) netdevCause() string {
	n := i.driver.config.Network
	if n == nil {
		return ""
	}
	dev, err := n.Device(i.device, lnet.NID{})
	switch {
	case err != nil:
		return i.missing(n, err)
	case dev.Off:
		return fmt.Sprintf("%s is switched off: ip link set %s up", dev.Name, dev.Name)
	case dev.NoCarrier:
		return fmt.Sprintf("%s has no carrier: check its cable and the port at the other end", dev.Name)
	case !dev.Up:
		return fmt.Sprintf("%s is not operational: see ip -d link show %s", dev.Name, dev.Name)
	case !slices.Contains(dev.Addrs, i.address):
		return fmt.Sprintf("%s has lost the address %s: add it again (ip address add), or delete the NI", dev.Name, i.address)
	}
	return ""
}

// missing explains why the network device cannot be found by its name.
func (i *Interface) missing(n Network, err error) string {
	if other, not := n.Device("", i.nid); not == nil && other.Name != i.device {
		return fmt.Sprintf("%s was renamed, %s has its address now: rename it back, or delete the NI and add it on %s", i.device, other.Name, other.Name)
	}
	return fmt.Sprintf("%s is missing (%v): restore it, or delete the NI", i.device, err)
}

// unbind detaches from a listener that is no longer usable, and closes all connections.
func (i *Interface) unbind() {
	i.mu.RLock()
	l := i.bound
	i.mu.RUnlock()
	if l == nil || i.closed() || !i.driver.isDefunct(l) {
		return
	}
	i.driver.unbind(i)
	i.releaseDevice(l.dev) // after unbind nothing can be registered with it
	f := deviceFailure(errDeviceGone)
	for _, p := range i.everybody() {
		p.closeAll(f)
	}
	i.lookAtLink()
	i.nextBind = time.Time{}
}

func (d *Driver) isDefunct(l *listener) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.defunct
}

// rebind looks for a device if the interface is not bound to one.
func (i *Interface) rebind(now time.Time) {
	i.mu.RLock()
	bound := i.bound != nil
	i.mu.RUnlock()
	if bound || i.closed() || now.Before(i.nextBind) {
		return
	}
	i.nextBind = now.Add(bindPeriod)
	if err := i.driver.bind(i); err != nil {
		var busy *lnd.ListenError
		if !errors.As(err, &busy) || !errors.Is(err, verbs.ErrNoDevice) {
			i.log.Debug("no device", "device", i.device, "cause", err)
		}
		return
	}
	if i.closed() { // closed meanwhile
		i.driver.unbind(i)
		return
	}
	i.log.Warn("device is back", "device", i.device)
	i.counters.rebinds.Add(1)
	i.registerAgain()
	i.lookAtLink()
}
