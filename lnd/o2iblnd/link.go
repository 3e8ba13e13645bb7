package o2iblnd

import (
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// bindPeriod is how often an interface without a listener tries to listen on a device that exists but cannot be
// used yet. If the host has no device for its address, it tries only when the host's configuration has changed
// (o2iblnd 16).
const bindPeriod = time.Second

// checkLink makes the keeper check the state of the link. If the interface has no device, the keeper also looks
// for one. Connections stay open.
func (i *Interface) checkLink() { i.keeper.do(task{kind: taskLink}) }

// rdmaCause returns why the RDMA device keeps the link down, and how to fix it: it does not exist, or its
// port is not active (o2iblnd 16). It is empty if neither is the case.
func (i *Interface) rdmaCause(device string) string {
	i.mu.RLock()
	l := i.bound
	i.mu.RUnlock()
	if l == nil || l.dev.gone.Load() {
		return fmt.Sprintf("the RDMA device of %s was removed: restore it (see rdma link), or delete the NI", device)
	}
	a, err := l.dev.v.Port(l.port)
	switch {
	case err != nil:
		return fmt.Sprintf("port %d of the RDMA device of %s cannot be queried (%v): see rdma link", l.port, device, err)
	case a.State != verbs.PortActive:
		return fmt.Sprintf("port %d of the RDMA device of %s is not active: see rdma link, check its cable and the port at the other end", l.port, device)
	}
	return ""
}

// unbind makes the interface leave its listener and closes all connections, if the listener is defunct.
// Otherwise it does nothing.
func (i *Interface) unbind() {
	i.mu.RLock()
	l := i.bound
	i.mu.RUnlock()
	if l == nil || i.Closed() || !i.driver.isDefunct(l) {
		return
	}
	i.driver.unbind(i)
	f := deviceFailure(errDeviceGone)
	for _, p := range i.Of(lnet.NID{}) {
		p.closeAll(f)
	}
	// After Driver.unbind, no memory can be registered with the device. Work requests refer to registrations
	// until their queue pairs are destroyed, for which closeAll has added tasks. So the registrations are
	// removed after these tasks.
	i.keeper.do(task{kind: taskRelease, dev: l.dev})
	i.CheckLink()
	i.absent, i.nextBind = false, time.Time{}
}

func (d *Driver) isDefunct(l *listener) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.defunct
}

// rebind tries to listen on a device if the interface does not have one, at most once in bindPeriod. If the
// host has no such device, rebind does nothing more until checkLink is called.
func (i *Interface) rebind(now time.Time) {
	i.mu.RLock()
	bound := i.bound != nil
	i.mu.RUnlock()
	if bound || i.absent || i.Closed() || now.Before(i.nextBind) {
		return
	}
	i.nextBind = now.Add(bindPeriod)
	if err := i.driver.bind(i); err != nil {
		if i.absent = errors.Is(err, verbs.ErrNoDevice); !i.absent {
			i.Log.Debug("RDMA device of the interface is still missing", "device", i.Device(), "cause", err)
		}
		return
	}
	if i.Closed() { // Close may have run before bind, so that it did not unbind
		i.driver.unbind(i)
		return
	}
	i.Log.Info("RDMA device is back; the interface uses it again", "device", i.Device())
	i.counters.rebinds.Add(1)
	i.registerAgain()
	i.CheckLink()
}
