package simlnd

import "github.com/lnetd/lnetd/lnd/socklnd"

// NewDriver returns a socklnd driver that uses the streams of h. If c does not set the seed, the wall clock or
// the source ports, NewDriver sets them from the fabric. So the same fabric seed gives the same jitter, and an
// interface has another incarnation each time it is opened.
func NewDriver(h *Host, c socklnd.Config) (*socklnd.Driver, error) {
	c.Network = h
	if c.Wall == nil {
		c.Wall = h.fabric.wall
	}
	if c.Seed == 0 {
		c.Seed = h.fabric.net.Seed(h.net)
	}
	if c.SourcePorts == socklnd.SourceAuto {
		c.SourcePorts = socklnd.SourcePrivileged
	}
	return socklnd.New(c)
}
