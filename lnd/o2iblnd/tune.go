package o2iblnd

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// tuned returns the driver's configuration with an interface's own tunables.
func (d *Driver) tuned(given lnd.Values) (*Config, error) {
	c := d.config
	err := fields.SetAll(&c, given)
	c.ConnsPerPeer = max(c.ConnsPerPeer, 1)
	return &c, err
}

// Options implements lnd.Interface. It returns the values after limits have been applied.
func (i *Interface) Options() lnd.Values { return i.options.Load().values(i.depth()) }

// Tune implements lnd.Tuner. A peer with connections keeps its current number until all of them are
// lost (o2iblnd 12.5).
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
