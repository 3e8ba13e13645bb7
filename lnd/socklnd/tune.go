package socklnd

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// options are an interface's Options in force.
type options struct {
	perPeer  int // conns_per_peer, 1 to 127
	tos      int
	timeout  time.Duration // 0: LNet's timeout
	busyPoll time.Duration // 0: never
}

// resolveOptions fills in the driver's values, and those derived from the device.
func (d *Driver) resolveOptions(given any, dev Device) (options, error) {
	o := Options{ConnsPerPeer: -1}
	switch v := given.(type) {
	case nil:
	case Options:
		o = v
	default:
		return options{}, fmt.Errorf("options of type %T: not socklnd.Options", given)
	}
	r := options{
		perPeer: d.config.ConnsPerPeer, tos: d.config.TOS, timeout: d.config.SockTimeout, busyPoll: d.config.BusyPoll,
	}
	if o.ConnsPerPeer >= 0 {
		r.perPeer = o.ConnsPerPeer
	}
	if r.perPeer > 127 {
		return r, fmt.Errorf("conns_per_peer %d: must be 0 to 127", r.perPeer)
	}
	if r.perPeer == 0 {
		r.perPeer = protocol.ConnsPerPeer(dev.SpeedMbps)
	}
	if o.TOS != nil {
		r.tos = *o.TOS
	}
	if r.tos > 255 {
		return r, fmt.Errorf("tos %d: must be -1 to 255", r.tos)
	}
	if o.Timeout != nil {
		r.timeout = *o.Timeout
	}
	if r.timeout < 0 {
		return r, fmt.Errorf("timeout %s: must not be negative", r.timeout)
	}
	if o.BusyPoll != nil {
		r.busyPoll = *o.BusyPoll
	}
	if !mayPoll(r.busyPoll) {
		return r, fmt.Errorf("busy_poll %s: must be 0 to %s", r.busyPoll, MaxBusyPoll)
	}
	return r, nil
}

// Options implements lnd.Interface. It returns an Options value.
func (i *Interface) Options() any {
	o := *i.options.Load()
	return Options{ConnsPerPeer: o.perPeer, TOS: &o.tos, Timeout: &o.timeout, BusyPoll: &o.busyPoll}
}

// Tune implements lnd.Tuner. It takes an Options value. If a peer needs more connections, they are
// opened with the next message to it; surplus connections stay open. Busy polling starts on a
// connection with its next message.
func (i *Interface) Tune(given any) error {
	dev, _ := i.driver.config.Network.Device(i.Device(), lnet.NID{}) // a missing device has no speed
	o, err := i.driver.resolveOptions(given, dev)
	if err != nil {
		return fmt.Errorf("socklnd: tune %s: %w", i.nid, err)
	}
	i.options.Store(&o)
	for _, p := range i.peersOf(lnet.NID{}) {
		p.mu.Lock()
		if p.wanted != nil {
			p.wanted.SetPerType(o.perPeer)
			p.publish()
		}
		p.mu.Unlock()
	}
	return nil
}
