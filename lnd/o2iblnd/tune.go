package o2iblnd

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// tuned returns the driver's configuration with the tunables in given, which an interface sets.
func (d *Driver) tuned(given lnd.Values) (*Config, error) {
	c := d.config
	err := fields.SetAll(&c, given)
	c.ConnsPerPeer = max(c.ConnsPerPeer, 1)
	return &c, err
}

// Options implements lnd.Interface. It returns the values in force. Some of them depend on others, such as
// peercredits_hiw on the queue depth.
func (i *Interface) Options() lnd.Values { return i.options.Load().values(i.depth()) }

// Tune implements lnd.Tuner. A peer that has connections keeps their number until all of them have ended, also
// if conns_per_peer changes; Send uses at most conns_per_peer of them (o2iblnd 12.5).
func (i *Interface) Tune(given lnd.Values) error {
	c, err := i.driver.tuned(given)
	if err != nil {
		return fmt.Errorf("o2iblnd: tune %s: %w", i.Self, err)
	}
	i.options.Store(c)
	for _, p := range i.Of(lnet.NID{}) {
		p.Lock()
		p.publish()
		p.Unlock()
	}
	return nil
}
