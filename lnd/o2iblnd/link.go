package o2iblnd

import (
	"errors"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// bindPeriod is how often an interface whose device is gone looks for one (o2iblnd 16).
const bindPeriod = time.Second

// watchLink has the link looked at when a network device has changed.
func (i *Interface) watchLink() {
	defer i.group.Done()
	err := i.driver.config.Network.Watch(i.ctx, i.checkLink)
	if err != nil && i.ctx.Err() == nil {
		i.log.Warn("link state is not watched", "device", i.device, "cause", err)
	}
}

// checkLink has the keeper look at the link.
func (i *Interface) checkLink() { i.keeper.do(task{kind: taskLink}) }

// lookAtLink tells the node of a change of the link state. Connections stay.
func (i *Interface) lookAtLink() {
	state := i.linkNow()
	if lnd.LinkState(i.link.Swap(uint32(state))) == state {
		return
	}
	i.log.Debug("link state changed", "device", i.device, "state", state.String()) // the node tells of it
	i.upper.LinkChanged(state)
}

// linkNow is down while there is no RDMA device, its port is not active, or the network
// device is not operational or has lost the address (o2iblnd 16).
func (i *Interface) linkNow() lnd.LinkState {
	i.mu.RLock()
	l := i.bound
	i.mu.RUnlock()
	if l == nil || l.dev.gone.Load() {
		return lnd.LinkDown
	}
	if a, err := l.dev.v.Port(l.port); err != nil || a.State != verbs.PortActive {
		return lnd.LinkDown
	}
	if n := i.driver.config.Network; n != nil {
		dev, err := n.Device(i.device, lnet.NID{})
		if err != nil || !dev.Up || !slices.Contains(dev.Addrs, i.address) {
			return lnd.LinkDown
		}
	}
	return lnd.LinkUp
}

// unbind leaves a listener that is of no use any more, and all connections with it.
func (i *Interface) unbind() {
	i.mu.RLock()
	l := i.bound
	i.mu.RUnlock()
	if l == nil || i.closed() || !i.driver.isDefunct(l) {
		return
	}
	i.driver.unbind(i)
	i.releaseDevice(l.dev) // now that nobody registers with it any more
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

// rebind looks for a device for an interface that has none.
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
	if i.closed() { // meanwhile
		i.driver.unbind(i)
		return
	}
	i.log.Warn("device is back", "device", i.device)
	i.counters.rebinds.Add(1)
	i.registerAgain()
	i.lookAtLink()
}
