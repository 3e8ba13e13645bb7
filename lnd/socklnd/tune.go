package socklnd

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// tuned returns the driver's configuration with the tunables in given, which an interface sets. If
// conns_per_peer is 0, it is derived from the device's speed.
func (d *Driver) tuned(given lnd.Values, device string) (*Config, error) {
	c := d.config
	if err := fields.SetAll(&c, given); err != nil {
		return nil, err
	}
	if c.ConnsPerPeer == 0 {
		c.ConnsPerPeer = protocol.ConnsPerPeer(d.config.Network.Speed(device))
	}
	return &c, nil
}

// Options implements lnd.Interface.
func (i *Interface) Options() lnd.Values { return i.options.Load().Values() }

// Tune implements lnd.Tuner. If a peer now needs more connections, they are opened when the next message is
// sent to it. Surplus connections stay open. A connection that is not polled yet begins busy polling with the
// next message that arrives on it.
func (i *Interface) Tune(given lnd.Values) error {
	c, err := i.driver.tuned(given, i.Device())
	if err != nil {
		return fmt.Errorf("socklnd: tune %s: %w", i.Self, err)
	}
	i.options.Store(c)
	for _, p := range i.Of(lnet.NID{}) {
		p.Lock()
		if p.wanted != nil {
			p.wanted.SetPerType(c.ConnsPerPeer)
			p.publish()
		}
		p.Unlock()
	}
	return nil
}
